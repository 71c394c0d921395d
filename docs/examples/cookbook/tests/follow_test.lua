local rl, fs, http = require "runloop", require "runloop.fs", require "runloop.http"
local t = require "runloop.test"
local support = require "tests.support"

-- Serves a webhook. `refuse` is the number of requests that it refuses first.
local function webhook(refuse)
  local hook = { lines = {}, refused = 0 }
  local server = assert(http.serve("127.0.0.1:0", function(request)
    if hook.refused < refuse then
      hook.refused = hook.refused + 1
      return { status = 503, headers = hook.refused == 1 and { ["retry-after"] = "120" } or nil }
    end
    local message = assert(request:json())
    for _, line in ipairs(message.lines) do hook.lines[#hook.lines + 1] = line end
    return 204
  end))
  t.finally(function() server:stop(0) end)
  hook.url = "http://" .. server:address() .. "/"
  return hook
end

local function append(path, text) assert(fs.write(path, text, { append = true })) end

t.describe("follow", function()
  t.it("tries again until the lines are accepted, and waits for as long as the webhook asks", function()
    local path, hook = support.directory() .. "/log", webhook(3)
    append(path, "one\ntwo\nhal")
    support.start("follow", { path, hook.url })
    t.eventually(function() return #hook.lines == 2 end, { within = 300, every = 1 })
    t.truthy(rl.now() >= 120, rl.now())
    append(path, "f\n")
    t.eventually(function() return #hook.lines == 3 end)
    t.equal(hook.lines, { "one", "two", "half" })
  end)

  t.it("loses nothing and repeats nothing when it is killed, and when the file is rotated", function()
    local path, hook = support.directory() .. "/log", webhook(0)
    append(path, "1\n2\n")
    local program = support.start("follow", { path, hook.url })
    t.eventually(function() return fs.stat(path .. ".position") ~= nil end)
    program:kill()
    append(path, "3\n")
    assert(fs.rename(path, path .. ".1"))
    append(path, "4\n")
    support.start("follow", { path, hook.url })
    t.eventually(function() return #hook.lines >= 4 end)
    assert(fs.rename(path, path .. ".1"))
    append(path .. ".1", "5\n")
    append(path, "6\n")
    t.eventually(function() return #hook.lines >= 6 end)
    t.equal(hook.lines, { "1", "2", "3", "4", "5", "6" })
  end)
end)
