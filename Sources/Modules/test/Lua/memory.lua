-- The tests that failed the last time they ran in this directory, for --last-failed.

local system = ...
local pairs, ipairs, next, setmetatable = pairs, ipairs, next, setmetatable
local format, concat, io_open, getenv = string.format, table.concat, io.open, os.getenv
local text_of = require "runloop.test.events".text_of

local Memory = {}
Memory.__index = Memory

local function place()
  local state = getenv "XDG_STATE_HOME"
  if not state or state:sub(1, 1) ~= "/" then state = (getenv "HOME" or "") .. "/.local/state" end
  local directory = system.current_directory()
  if not directory then return nil end
  -- Encodes the directory as a name that a file can have.
  local name = directory:gsub("[^%w%-_.]", function(c) return format("%%%02x", c:byte()) end)
  return state .. "/rlhost/test", name:sub(-200)
end

function Memory.new() return setmetatable({ seen = {} }, Memory) end

--- Records the outcome of a test.
function Memory:note(file, path, status)
  self.seen[file] = self.seen[file] or {}
  if status ~= "skipped" then self.seen[file][concat(path, "\0")] = status == "failed" end
end

--- Forgets the failures of tests in `names` that the file no longer has.
function Memory:forget(file, names, tests)
  local there = {}
  for _, test in ipairs(tests) do there[concat(test.path, "\0")] = true end
  self.seen[file] = self.seen[file] or {}
  for name in pairs(names) do
    if not there[name] then self.seen[file][name] = false end
  end
end

-- Returns the names of the tests that failed, by file.
local function load_failed()
  local directory, name = place()
  local file = directory and io_open(directory .. "/" .. name)
  local chunk = file and load(file:read "a", "=failed", "t", {})
  if file then file:close() end
  local fine, failed = pcall(chunk or function() return {} end)
  return fine and type(failed) == "table" and failed or {}
end

--- Saves the outcomes of this run, and keeps those of tests that did not run.
function Memory:save()
  local directory, name = place()
  if not directory then return end
  local failed, is_new = load_failed(), false
  for file, tests in pairs(self.seen) do
    for test, has_failed in pairs(tests) do
      local known = failed[file] and failed[file][test] or false
      if known ~= has_failed then
        is_new = true
        failed[file] = failed[file] or {}
        failed[file][test] = has_failed or nil
      end
    end
  end
  if not is_new then return end
  local made = ""
  for part in directory:gmatch "[^/]+" do
    made = made .. "/" .. part
    if not system.make_directory(made) then return end
  end
  for file, tests in pairs(failed) do if not next(tests) then failed[file] = nil end end
  system.write_file(format("%s/%s", directory, name), format("return %s\n", text_of(failed)))
end

--- Returns the files with tests that failed the last time, and stores the names of these tests in them. Returns all
--- files if no test failed.
function Memory:choose(files)
  local failed, chosen = load_failed(), {}
  for _, file in ipairs(files) do
    if failed[file.path] and next(failed[file.path]) then
      file.names = failed[file.path]
      chosen[#chosen + 1] = file
    end
  end
  if #chosen > 0 then return chosen end
  io.stderr:write "rlhost: test: nothing failed last time: running all tests\n"
  return files
end

return Memory
