-- The limit of a test counts its processor time and real waiting, and not what other processes take.

local rl, fs, process = require "runloop", require "runloop.fs", require "runloop.process"
local t = require "runloop.test"

-- Runs a test file at this niceness, on a processor that another program uses: at niceness 10 the file gets a tenth of
-- the time, at 15 a thirtieth. Many programs of the same niceness would take the processor from all other tests as
-- well.
local function run_beside(niceness, text)
  local directory = fs.temporary_directory "rlhost-limit"
  t.finally(function() fs.remove(directory, { recursive = true }) end)
  fs.write(directory .. "/a_test.lua", "local t, rl = require 'runloop.test', require 'runloop'\n" .. text)
  local processor = process.run { "taskset", "-c", "-p", process.id() }.output:match "(%d+)[^%d]*$"
  local other <close> = t.spawn { "taskset", "-c", processor, "sh", "-c", "while :; do :; done" }
  rl.sleep(0.3)
  local result = process.run { "nice", "-n", niceness, "taskset", "-c", processor, t.rlhost, "test", "--timeout", "0.5",
    "a_test.lua", directory = directory, timeout = 120 }
  t.truthy(other:is_running())
  return result
end

local OPTIONS = { real_time = true, timeout = 120 }
if not os.execute "command -v taskset >/dev/null" then OPTIONS.skip = "taskset is not installed" end
-- Beside many other programs a test of this niceness would get no processor for minutes.
if tonumber((fs.read "/proc/loadavg"):match "^%S+") > 3 then OPTIONS.skip = "the machine is busy" end

t.it("a test may compute while other programs have the processor", OPTIONS, function()
  -- The runner ends a worker that does not report its end within 5 s after the limit.
  local result = run_beside("15", [[
    local function processor_time()
      local file <close> = assert(io.open "/proc/thread-self/schedstat")
      return file:read "n" / 1e9
    end
    t.it("computes", { real_time = true }, function()
      local from, began = processor_time(), rl.now()
      repeat for _ = 1, 1e5 do end until processor_time() - from > 0.25
      print("took", rl.now() - began)
    end)
  ]])
  t.truthy(result.output:find "1 passed", result.output)
  -- If the test took less time, the other programs have not used the processor, and the result shows nothing.
  t.truthy(tonumber(result.output:match "took%s+([%d.]+)") > 0.6, result.output)
end)

t.it("threads may pass messages while other programs have the processor", OPTIONS, function()
  local result = run_beside("10", [[
    local function stage(next, ready)
      local rl = require "runloop"
      ready:send { reply_port = rl.port { modes = "default", callback = function(port, message)
        if message.data == "end" then return port:invalidate() end
        rl.sleep(1)
        next:send { data = message.data + 1 }
      end } }
    end
    t.it("passes messages", function()
      local answers, threads, inboxes = rl.channel(1), {}, {}
      local own = rl.port { modes = "default", callback = function(_, message) answers:send(message.data) end }
      for i = 1, 5 do
        local inbox = rl.future()
        local ready = rl.port { modes = "default", callback = function(port, message)
          port:invalidate()
          inbox:complete(message.reply_port)
        end }
        threads[i] = rl.thread(stage, inboxes[i - 1] or own, ready)
        inboxes[i] = inbox:await()
      end
      for _ = 1, 40 do
        inboxes[5]:send { data = 0 }
        t.equal(answers:receive(), 5)
      end
      for i = 1, 5 do
        inboxes[i]:send { data = "end" }
        threads[i]:join()
      end
      own:invalidate()
      t.equal(rl.now() // 1, 200.0)
    end)
  ]])
  t.truthy(result.output:find "1 passed", result.output)
end)
