-- The names of recordings: each test file has its own prefix, and each test its own file.

local concat, sub, gsub = table.concat, string.sub, string.gsub

local recordings = {}

-- Returns the name itself, or the name with a number if it is taken. `taken` counts the uses of each name.
local function free(taken, name, separator)
  local found = name
  while taken[found] do
    taken[name] = taken[name] + 1
    found = name .. separator .. taken[name]
  end
  taken[found] = 1
  return found
end

--- Gives each file a directory and a first word for its recordings. The words contain no blank, so no two names of
--- files and tests can be equal.
function recordings.prepare(directory, files)
  local taken = {}
  for _, file in ipairs(files) do
    local stem = gsub(gsub(gsub(file.path, "%.lua$", ""), "[^%w%-_.]", "_"), "^%.+", "")
    file.recordings = directory .. "/" .. free(taken, sub(stem, 1, 120), "_")
  end
end

--- Gives each test of a file the path of its recording, relative to the runner's directory.
function recordings.name(place, tests)
  local taken = {}
  for _, test in ipairs(tests) do
    local name = gsub(concat(test.path, " "), "[^%w%-_. ]", "_")
    test.recording = place .. " " .. free(taken, sub(name, 1, 120), " ") .. ".html"
  end
end

return recordings
