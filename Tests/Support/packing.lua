-- Shared by the tests of scripts/package: programs, directories, and the packages of the portable program.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/%.%./Support/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local PROGRAM = ROOT .. "/.build/portable/rlhost"
local REAL = { real_time = true, timeout = 120 }
local VERSION = rl.version

-- Containers may forbid even root the operations of these tests.
local is_root = os.execute [[exec 2>/dev/null; d=$(mktemp -d) && mknod $d/null c 1 3 &&
  unshare --fork --pid --mount chroot / true; s=$?; rm -rf $d; exit $s]]
local has_program = fs.stat(PROGRAM) ~= nil
local it = has_program and t.it or function(name, _, body) t.skip(name .. ": needs scripts/build --portable", body) end
local as_root = has_program and is_root and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end

local function with(program)
  local is_there = has_program and os.execute("command -v " .. program .. " >/dev/null")
  return is_there and t.it or function(name, _, body) t.skip(name .. ": needs " .. program, body) end
end

local function sh(text, ...)
  local result = assert(process.run { "sh", "-c", text, "sh", ... })
  return result.output, result.errors, result.code
end

-- Fails with the output of the command, unless its status is 0.
local function good(text, ...)
  local output, errors, code = sh(text, ...)
  t.equal(code, 0, output .. errors)
  return output
end

local function directory()
  local path = assert(fs.temporary_directory())
  return path, setmetatable({}, { __close = function() sh("rm -rf '" .. path .. "'") end })
end

local function package(options, environment)
  return process.run { "sh", "-c", ROOT .. "/scripts/package " .. options, environment = environment }
end

-- A small program, which is packed in less time than rlhost.
local SMALL = "/usr/bin/true"

local made, has = nil, {}

-- The directory with a part of the packages of the portable program; each part is made once.
local function packages(part)
  made = made or assert(fs.temporary_directory())
  if not has[part] then
    local result = package(("--program %s --output %s %s"):format(PROGRAM, made, part))
    t.equal(result.code, 0, result.errors)
    has[part] = true
  end
  return made
end
t.after_all(function() if made then sh("rm -rf '" .. made .. "'") end end)

return {
  root = ROOT, program = PROGRAM, small = SMALL, real = REAL, version = VERSION,
  it = it, as_root = as_root, with = with,
  sh = sh, good = good, directory = directory, package = package, packages = packages,
}
