-- Where the recordings of tests go: into files that are named after them, each test's into one of its own.

local concat, sub, gsub = table.concat, string.sub, string.gsub

local recordings = {}

-- The name itself, or with a number behind it. `taken` counts who has asked for which.
local function free(taken, name, separator)
  local found = name
  while taken[found] do
    taken[name] = taken[name] + 1
    found = name .. separator .. taken[name]
  end
  taken[found] = 1
  return found
end

--- Gives each of the files, which have paths, a directory and a first word for its recordings. Without a blank, no two are taken for one.
function recordings.prepare(directory, files)
  local taken = {}
  for _, file in ipairs(files) do
    local stem = gsub(gsub(gsub(file.path, "%.lua$", ""), "[^%w%-_.]", "_"), "^%.+", "")
    file.recordings = directory .. "/" .. free(taken, sub(stem, 1, 120), "_")
  end
end

--- Gives each of a file's tests, which have paths of names, its recording. Relative to where the runner runs.
function recordings.name(place, tests)
  local taken = {}
  for _, test in ipairs(tests) do
    local name = gsub(concat(test.path, " "), "[^%w%-_. ]", "_")
    test.recording = place .. " " .. free(taken, sub(name, 1, 120), " ") .. ".html"
  end
end

return recordings
