-- runloop.nats with other clients at the other end: nats.py and nats.go. Both clients understand the same commands.

local rl = require "runloop"
local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local nats = require "runloop.nats"

local HERE = "Tests/Modules/nats/"

-- Returns the command of the client in Python; skips the test if its module is not installed.
local function python()
  for _, program in ipairs { "/usr/bin/python3", "python3" } do
    local done = process.run { program, "-c", "import nats.js.api" }
    if done and done.code == 0 then return { program, HERE .. "peer.py" } end
  end
  t.skip "nats.py is not installed (pip install nats-py)"
end

-- Returns the command of the client in Go, which is compiled once.
local function go()
  local program, source = ".build/peers/nats-go", HERE .. "peer.go"
  local made, written = fs.stat(program), fs.stat(source)
  if made and made.modified > written.modified then return { program } end
  if not fs.stat "/usr/share/gocode/src/github.com/nats-io/nats.go" or not fs.stat "/usr/bin/go" then
    t.skip "nats.go is not installed (apt install golang-go golang-github-nats-io-go-nats-dev)"
  end
  t.truthy(fs.make_directory(".build/peers", { parents = true }))
  local built = t.truthy(process.run { "go", "build", "-o", program, source, environment = { GO111MODULE = "off",
    GOPATH = "/usr/share/gocode", GOCACHE = fs.real_path ".build/peers" .. "/cache" } })
  t.equal(built.code, 0, built.errors)
  return { program }
end

for name, command_of in pairs { ["nats.py"] = python, ["nats.go"] = go } do
  t.it("understands " .. name .. ", and is understood", { real_time = true, timeout = 300 }, function()
    local command = command_of()
    local server = t.server "nats"
    local bus <close> = t.truthy(nats.connect(server:url()))
    command[#command + 1] = server:url()
    local peer <close> = t.spawn(command)
    peer:wait_for "ready"
    local seen = 0
    -- Runs a command in the other client, and returns its output.
    local function ask(...)
      local before = #peer:output()
      peer:write(table.concat({ ... }, " ") .. "\n")
      for _ = 1, 1000 do
        local line = peer:output():sub(before + 1):match "^(.-)\n"
        if line then return line end
        rl.sleep(0.01)
      end
      t.equal(peer:errors(), "an answer")
    end
    -- Requests and headers, both ways.
    local m = t.truthy(bus:request("peer.echo", "abc", { headers = { Word = "hello" }, timeout = 5 }))
    t.equal({ m.data, m.headers.Seen }, { "cba", "hello" })
    m = t.truthy(bus:request("peer.echo", "", { timeout = 5 }))
    t.equal({ m.data, m.headers.Seen }, { "", "none" })
    bus:subscribe("ours", { keeps_alive = false }, function(question)
      seen = seen + 1
      question:respond(question.data:upper(), { headers = { Seen = question.headers.Word } })
    end)
    bus:flush(5)
    t.equal({ ask("ask", "ours", "hello"), seen }, { "HELLO x", 1 })
    -- This process makes the stream; the other client stores messages, repeats one, and takes messages from the
    -- consumer.
    local stream = t.truthy(bus:stream("work", { subjects = { "work.>" }, retention = "workqueue" }))
    local consumer = t.truthy(stream:consumer("shared", { ack_wait = 30 }))
    t.equal(ask("store", "work.a", "one", "id1"), "work 1 False")
    t.equal(ask("store", "work.a", "one", "id1"), "work 1 True")
    t.equal(stream:publish("work.a", "one", { id = "id1" }).duplicate, true)
    t.truthy(stream:publish("work.a", "two"))
    t.equal(ask("pull", "work", "shared"), "one 1")
    m = t.truthy(consumer:receive(5))
    t.equal({ m.data, m.delivered, m:ack(5) }, { "two", 1, true })
    t.equal(stream:info().messages, 0)
    consumer:invalidate()
    -- Buckets, made by either.
    t.equal(ask("make", "theirs"), "theirs")
    t.truthy(bus:bucket("own", { history = 3, storage = "memory" }))
    for _, bucket in ipairs { "theirs", "own" } do
      local b = t.truthy(bus:bucket(bucket))
      local changes <close> = t.truthy(b:watch ">")
      t.equal(ask("put", bucket, "k.a", "1"), "1")
      t.equal(t.truthy(changes:receive(5)).value, "1")
      t.equal({ b:get "k.a" }, { "1", 1 })
      t.equal(b:put("k.a", "2", { revision = 1 }), 2)
      t.equal(b:put("k.b", "3"), 3)
      t.equal(ask("get", bucket, "k.a"), "2 2")
      t.equal(b:remove "k.b", 4)
      t.truthy(b:put("k.c", "5"))
      t.equal(ask("watch", bucket):gsub("k.b= ?", ""), "k.a=2 k.c=5")
      t.equal(#b:history "k.a", 2)
    end
  end)
end
