-- scripts/fuzz: random programs that call everything that docs/lua describes.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local REAL = { real_time = true, timeout = 60 }
local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT

-- Runs scripts/fuzz with these words. → status, output, errors
local function fuzz(words, host)
  local run = process.run { "sh", "-c", '"$1/scripts/fuzz" ' .. words, "sh", ROOT,
    environment = { RLHOST = host or fs.real_path(t.rlhost) } }
  return run.code, run.output, run.errors
end

t.it("scripts/fuzz prints its help, and refuses wrong arguments with status 64", REAL, function()
  local status, output = fuzz "--help"
  t.equal(status, 0)
  t.truthy(output:find("--seconds N", 1, true))
  for words, problem in pairs { ["--sed 1"] = "unknown option --sed", ["--seed x"] = "needs a number, not 'x'",
    ["--build fast"] = "not 'fast'", ["--jobs 0"] = "out of range", frob = "unknown word 'frob'", ["show a"] = "SEED",
    ["parsers x"] = "not 'x'", ["--seconds -1"] = "out of range" } do
    local code, _, errors = fuzz(words)
    t.equal(code, 64, words)
    t.truthy(errors:find(problem, 1, true), errors)
  end
end)

t.it("scripts/fuzz writes the same program for a seed, with the calls of docs/lua", REAL, function()
  local _, first = fuzz "show 7"
  local _, second = fuzz "show 7"
  t.equal(first, second)
  t.truthy(load(first))
  local _, calls = first:gsub("M%.%a+%.%a", "")
  t.truthy(calls > 10, calls)
end)

t.it("scripts/fuzz runs new programs, and the corpus", REAL, function()
  local status, output = fuzz "--seconds 2 --seed 1"
  t.equal(status, 0, output)
  status, output = fuzz "corpus"
  t.equal(status, 0, output)
end)

t.it("scripts/fuzz finds a crash, and keeps the smallest program that causes it", REAL, function()
  local folder = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(folder, { recursive = true }) end })
  fs.write(folder .. "/rlhost", '#!/bin/sh\nfor p; do :; done\nwhile read -r line; do\n  case $line in\n'
    .. '    collectgarbage*) kill -SEGV $$ ;;\n  esac\ndone <"$p"\n', { mode = 448 })
  local status, output = fuzz("--seconds 1 --seed 1 --corpus " .. folder, folder .. "/rlhost")
  t.equal(status, 1)
  t.truthy(output:find "signal: status %-11", output)
  local kept
  for _, entry in ipairs(assert(fs.list(folder))) do kept = entry.name:match "^%d+%.fuzz$" or kept end
  local text = assert(fs.read(folder .. "/" .. kept))
  local actions = text:gsub("%-%-[^\n]*\n", ""):gsub('finish "%a+"\n', "")
  t.equal(actions, 'dofile(os.getenv "FUZZ_WORLD")\ncollectgarbage()\n')
end)
