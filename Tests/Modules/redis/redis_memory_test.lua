-- Answers that exceed the memory of the program that asks.

local process = require "runloop.process"
local t = require "runloop.test"

local has_server = os.execute "command -v redis-server >/dev/null"
local test = has_server and t.it or t.skip

test("an answer that exceeds the memory ends its connection only", { real_time = true, timeout = 60 }, function()
  local server = t.server { "redis-server", "--port", "0", "--unixsocket", "{socket}", "--save", "",
    ready = "unix" }
  local answer = process.run { t.rlhost, "--memory=8M", "-", input = ([[
    local db = assert(require "runloop.redis".open "unix:%s")
    for _ = 1, 10 do db:call("APPEND", "big", ("x"):rep(1 << 20)) end
    for _ = 1, 3 do
      local value, _, code = db:call("GET", "big")
      print(value, code, db:call "PING" or db:call "PING")
    end
  ]]):format(server:directory() .. "/socket") }
  t.equal({ answer.code, answer.output, answer.errors }, { 0, ("nil\tENOMEM\tPONG\n"):rep(3), "" })
end)
