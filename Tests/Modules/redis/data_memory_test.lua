-- Answers and messages that exceed the memory of the program that gets them.

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

test = os.execute "command -v nats-server >/dev/null" and t.it or t.skip
test("a message of NATS that exceeds the memory ends its connection only",
  { real_time = true, timeout = 60 }, function()
    local server = t.server "nats"
    local bus = t.truthy(require "runloop.nats".connect(server:url()))
    local reader = t.spawn { t.rlhost, "--memory=8M", "-e", ([[
      local nats, rl, kept, reasons = require "runloop.nats", require "runloop", {}, {}
      local bus = assert(nats.connect(%q, { on_event = function(_, event, details)
        if event == "disconnected" then reasons[#reasons + 1] = details.code end
      end }))
      bus:subscribe("big", function(message) kept[#kept + 1] = message.data end)
      bus:subscribe("end", function(message) kept = nil message:respond(reasons[1]) end)
      bus:flush()
      print "ready"
      rl.run()
    ]]):format(server:url()) }
    reader:wait_for "ready"
    for _ = 1, 30 do bus:publish("big", ("x"):rep(900000)) end
    t.eventually(function()
      local answer = bus:request("end", "", { timeout = 1 })
      return answer and answer.data == "ENOMEM"
    end, { within = 20 })
    bus:close()
    reader:kill()
  end)
