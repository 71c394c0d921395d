-- scripts/bench, where a program that makes the load is not installed.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT

-- Runs the script as if a program were not there.
local WITHOUT <const> = [[
import runpy, shutil, sys
script, missing, *words = sys.argv[1:]
find = shutil.which
shutil.which = lambda name, *rest: None if name == missing else find(name, *rest)
sys.argv = [script, *words]
runpy.run_path(script, run_name="__main__")
]]

t.it("scripts/bench reports once that wrk is not installed", { real_time = true, timeout = 120 }, function()
  if process.run { "sh", "-c", "command -v cc && command -v openssl && command -v pkg-config" }.code ~= 0 then
    t.skip "cc, openssl or pkg-config is not installed"
  end
  local run = process.run { "python3", "-c", WITHOUT, ROOT .. "/scripts/bench", "wrk", "--network", "--quick", "--only",
    "wrk", "--host", fs.real_path(t.rlhost) }
  t.equal(run.code, 0, run.errors)
  t.equal(select(2, run.errors:gsub("wrk is not installed: skipped\n", "")), 1, run.errors)
  t.falsy(run.errors:find "failed", run.errors)
end)
