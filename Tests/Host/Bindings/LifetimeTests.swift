import TestSupport
import Testing

@testable import Lua
@testable import LuaRunLoops
@testable import RunLoops

/// How long objects, callbacks, tasks, and their values live.
@Suite(.timed) struct LifetimeTests {
    private static let prelude = """
        local alive = setmetatable({}, { __mode = "k" })
        local function count() collectgarbage() collectgarbage() local n = 0 for _ in pairs(alive) do n = n + 1 end \
        return n end
        local function mark(object) alive[object] = true return object end
        local l = rl.current()

        """

    private static let makers = [
        "timer": "rl.timer { delay = 1, interval = 1, callback = function() return me end }",
        "source": "rl.source { perform = function() return me end }",
        "observer": "rl.observer { activities = 'all', callback = function() return me end }",
        "fd_port": "rl.fd_port { fd = 0, callback = function() return me end }",
        "port": "rl.port { callback = function() return me end }",
    ]

    @Test("an object in no mode is collected with the cycle through its callback", arguments: makers.keys.sorted())
    func anObjectInNoModeIsCollectedWithTheCycleThroughItsCallback(_ kind: String) throws {
        let world = try LuaWorld()
        let script = """
            for i = 1, 100 do local me; me = \(Self.makers[kind] ?? "") mark(me) end
            return tostring(count())
            """
        #expect(try world.run(Self.prelude + script) == "0")
    }

    @Test(
        "an object in a mode lives until it has left the last one", arguments: makers.keys.sorted(),
        ["'default'", "'common'", "{'a', 'b'}"]) func anObjectInAModeLivesUntilItHasLeftTheLastOne(
            _ kind: String, _ modes: String
        ) throws
    {
        let world = try LuaWorld()
        let script = """
            local keys = {}
            for i = 1, 20 do local me; me = \(Self.makers[kind] ?? "") mark(me) l:add(me, \(modes)) end
            local scheduled = count()
            for object in pairs(alive) do keys[#keys + 1] = object end
            for i = 1, 10 do keys[i]:invalidate() end
            for i = 11, 20 do l:remove(keys[i], \(modes)) end
            keys = nil
            return scheduled .. " " .. count()
            """
        #expect(try world.run(Self.prelude + script) == "20 0")
    }

    @Test("an object that is invalidated releases its function", arguments: makers.keys.sorted())
    func lettingGo(_ kind: String) throws {
        let world = try LuaWorld()
        let script = """
            local function make() local me = mark({}) return \(Self.makers[kind] ?? "") end
            local object = make()
            l:add(object)
            local before = count()
            object:invalidate()
            return before .. " " .. count() .. " " .. tostring(object:is_valid())
            """
        #expect(try world.run(Self.prelude + script) == "1 0 false")
    }

    @Test("objects that fire once are collected afterwards") func whatFiresOnceIsCollectedAfterwards() throws {
        let world = try LuaWorld()
        let script = """
            local fired = 0
            for i = 1, 50 do
              mark(rl.after(0.01, function() fired = fired + 1 end))
              mark(rl.perform(function() fired = fired + 1 end))
              mark(rl.perform { function() fired = fired + 1 end, after = 0.01 })
              local o = mark(rl.observer { activities = "all", repeats = false, callback = function() \
            fired = fired + 1 end })
              l:add(o)
            end
            local before = count()
            rl.run()
            return before .. " " .. fired .. " " .. count()
            """
        #expect(try world.run(Self.prelude + script) == "200 200 0")
    }

    @Test("closing an object invalidates it") func closingInvalidates() throws {
        let world = try LuaWorld()
        let script = """
            do local t <close> = mark(rl.every(1, print)) local o <close> = mark(rl.observe("all", print)) end
            return count() .. " " .. rl.run()
            """
        #expect(try world.run(Self.prelude + script) == "0 finished")
    }

    @Test("an object may be collected in its own callback")
    func anObjectMayGoInItsOwnCallbackWithAFullCollectionInIt() throws {
        let world = try LuaWorld()
        let script = """
            local log = {}
            local function go(object) object:invalidate() count() log[#log + 1] = tostring(object):match("^%a+") end
            mark(rl.every(0.01, go))
            l:add(mark(rl.observer { activities = "all", callback = go }))
            local s = mark(rl.source { perform = go }) l:add(s) s:signal() s = nil
            rl.perform(function() count() end)
            rl.sleep(0.05)
            return table.concat(log, " ") .. " " .. count()
            """
        let result = try world.run(Self.prelude + script)
        #expect(Set(result.split(separator: " ")) == ["observer", "source", "timer", "0"], "\(result)")
        #expect(world.uncaught == [])
    }

    @Test("a file lives as long as the port that watches it") func aFileLivesAsLongAsThePortThatWatchesIt() throws {
        let world = try LuaWorld()
        let script = """
            local fd
            do
              local file = io.popen("echo hello; sleep 0.2")
              mark(file)
              rl.on_readable(file, function(port) fd = port:fd() port:invalidate() end)
            end
            local before = count()
            while not fd do rl.run { timeout = 0.001 } end
            return before .. " " .. count()
            """
        world.poller.waitsForDescriptors = true
        #expect(try world.run(Self.prelude + script) == "1 0")
    }

    @Test("a callback that waits outlives its object") func aCallbackThatWaitsOutlivesItsObject() throws {
        let world = try LuaWorld()
        let script = """
            local done = 0
            local t = mark(rl.every(0.01, function(t) t:invalidate() rl.sleep(0.05) done = done + 1 end))
            t = nil
            rl.sleep(0.03) count()
            rl.sleep(0.1)
            return done .. " " .. count()
            """
        #expect(try world.run(Self.prelude + script) == "1 0")
    }

    @Test("a source that leaves the mode of its schedule function is still held by the other modes")
    func aSourceThatLeavesTheModeItIsToldOfIsStillHeldByTheOthers() throws {
        let world = try LuaWorld()
        let script = """
            local performed = 0
            do
              local s = mark(rl.source {
                schedule = function(s, loop, mode) if mode == "default" then loop:remove(s, mode) end end,
                perform = function(s) performed = performed + 1 s:invalidate() end })
              l:add(s, { "default", "other" })
              s:signal()
            end
            local before = count()
            rl.run { mode = "other", timeout = 0 }
            return before .. " " .. performed .. " " .. count()
            """
        #expect(try world.run(Self.prelude + script) == "1 1 0")
    }

    @Test("a state that is closed leaves nothing in its loop") func nothingOfAStateIsLeftInItsLoop() throws {
        let poller = SimulatedPoller()
        let loop = RunLoop(poller: poller)
        do {
            let host = try #require(LuaHost(loop: loop))
            host.onUncaught = { _, failure in Issue.record("\(failure.text)") }
            #expect(host.openLibraries() == nil)
            let script = """
                local rl = require "runloop"
                local l = rl.current()
                local f = function() error "called after the end" end
                for _, mode in ipairs { "default", "common", "a" } do
                  l:add(rl.timer { interval = 1, callback = f }, mode)
                  l:add(rl.observer { activities = "all", callback = f }, mode)
                  local s = rl.source { perform = f, cancel = function() pcall(rl.every, 1, f) l:add(rl.source {}, \
                "b") end }
                  l:add(s, mode) s:signal()
                  l:add(rl.port { callback = f }, mode)
                  rl.perform { f, modes = { mode } }
                  rl.perform { f, modes = { mode }, after = 1 }
                end
                local t = rl.every(1, f) l:remove(t, "default")
                local o = rl.observe("all", f) l:remove(o, "default")
                rl.task(function() rl.sleep(1) f() end)
                setmetatable({}, { __gc = function() pcall(rl.every, 1, f) pcall(rl.perform, f) pcall(rl.task, f) end })
                """
            #expect(host.load(.text(script, name: "=test")) == nil)
            _ = host.start()
            host.close()
        }
        poller.advance(by: .seconds(10))
        #expect(loop.allTimers.isEmpty)
        #expect(loop.allItems.isEmpty)
        #expect(loop.run(in: .default, for: .seconds(10)) == .finished)
        loop.close()
    }

    @Test("a state that is dropped without being closed does not crash")
    func aStateThatIsDroppedWithoutBeingClosedIsNoCrash() throws {
        let loop = RunLoop(poller: SimulatedPoller())
        weak var host: LuaHost?
        do {
            let strong = try #require(LuaHost(loop: loop))
            host = strong
            #expect(strong.openLibraries() == nil)
            let script = """
                local rl = require "runloop"
                rl.every(1, print) rl.observe("all", print) rl.perform(print) rl.task(function() rl.sleep(1) end)
                """
            #expect(strong.load(.text(script, name: "=test")) == nil)
            _ = strong.start()
        }
        #expect(host == nil)
        #expect(loop.run(in: .default, for: .seconds(10)) == .finished)
    }

    // MARK: Coroutines that the host owns

    @Test("the coroutine of a callback that has ended is dead", arguments: ["resume", "close"])
    func theCoroutineOfACallbackThatHasEndedIsDead(_ function: String) throws {
        let world = try LuaWorld()
        let script = """
            local co, fired = nil, 0
            rl.after(0, function() co = coroutine.running() end)
            rl.run()
            local status = coroutine.status(co)
            pcall(coroutine.\(function), co, 1, 2, 3)
            for i = 1, 5 do rl.after(0, function() fired = fired + 1 end) end
            rl.run()
            return status .. " " .. fired
            """
        #expect(try world.run(script) == "dead 5")
    }

    @Test("the coroutine of a task that waits belongs to the host", arguments: ["resume", "close"])
    func theCoroutineOfATaskThatWaitsIsTheHosts(_ function: String) throws {
        let world = try LuaWorld()
        let script = """
            local co
            local t = rl.task(function() co = coroutine.running() rl.sleep(0.01) rl.sleep(0.01) return "slept" end)
            local caught, ok, message = pcall(coroutine.\(function), co, 1)
            message = message or ok
            return tostring(message:find("of a task", 1, true) ~= nil) .. " " .. t:await() \
            .. " " .. coroutine.status(co)
            """
        #expect(try world.run(script) == "true slept dead")
    }

    @Test("waits in coroutines of the script raise an error with the reason")
    func userCoroutinesAroundHostWaitsSayWhyTheyCannotWait() throws {
        let world = try LuaWorld()
        let script = """
            local results = {}
            local waits = { function() rl.sleep(1) end, function() rl.task(function() rl.sleep(1) end):await() end }
            for _, wait in ipairs(waits) do
              local co = coroutine.create(wait)
              local ok, message = coroutine.resume(co)
              results[#results + 1] = tostring(ok) .. tostring(message:find("coroutine of the script's own", 1, true) \
            ~= nil)
              local caught = pcall(coroutine.wrap(wait))
              results[#results + 1] = tostring(caught)
            end
            return table.concat(results, " ")
            """
        #expect(try world.run(script) == "falsetrue false falsetrue false")
    }

    // MARK: Depth

    @Test(
        "recursion that is too deep raises an error and the state stays usable",
        arguments: [
            "local function go() depth = depth + 1 if depth < 100 then rl.perform(go) rl.run { timeout = 0.001 } "
                + "end end",
            "local function go() depth = depth + 1 rl.timer { delay = 1, callback = go }:fire() end",
            "local function go() depth = depth + 1 rl.task(go) end",
            "local function go() depth = depth + 1 rl.perform { go, wait = true } end",
            "local function go() depth = depth + 1 rl.current():add(rl.source { schedule = function() go() end }) end",
        ]) func tooDeepIsAnErrorAndTheStateGoesOn(_ definition: String) throws
    {
        let world = try LuaWorld()
        let script = """
            local depth, errors = 0, 0
            rl.on_error(function() errors = errors + 1 end)
            \(definition)
            local ok = pcall(go)
            local fine = false
            rl.after(0, function() fine = true end)
            rl.sleep(1)
            return tostring(depth > 10 and depth < 100000) .. " " .. tostring(fine)
            """
        #expect(try world.run(script) == "true true")
    }

    @Test("a script that calls the finalizer of an object that is alive changes nothing")
    func finalizedByHand() throws {
        let world = try LuaWorld()
        let script = """
            local said = {}
            for _, object in ipairs { rl.source {}, rl.observer { activities = "entry", callback = print } } do
              debug.getmetatable(object).__gc(object)
              rl.current():add(object)
              said[#said + 1] = tostring(rl.current():contains(object, "default"))
            end
            local source source = rl.source { perform = function() debug.getmetatable(source).__gc(source) \
            error "end" end }
            rl.current():add(source) source:signal()
            rl.sleep(0.01)
            return table.concat(said, "|")
            """
        #expect(try world.run(script) == "true|true")
        #expect(world.uncaught.count == 1 && world.uncaught[0].contains("end"))
    }

    // MARK: Errors in every kind of callback

    @Test("an error of any kind in any callback is reported, and has no other effect")
    func errorsOfEveryKindInEveryKindOfCallbackAreReportedAndNothingElseHappens() throws {
        let world = try LuaWorld()
        let script = """
            local l, seen = rl.current(), 0
            rl.on_error(function(value, info) seen = seen + 1 assert(type(info) == "table") end)
            local values = { "text", 42, {}, false, setmetatable({}, { __tostring = function() error "x" end }),
              setmetatable({}, { __index = error, __tostring = function() return 1 end }) }
            for i = 1, 6 do
              local f = function() local x <close> = setmetatable({}, { __close = function() end }) error(values[i]) end
              rl.after(0, f) rl.perform(f) rl.perform { f, after = 0 } rl.task(f)
              rl.task(function() rl.sleep(0.001) f() end)
              local s = rl.source { perform = f, schedule = f, cancel = f } l:add(s) s:signal()
              l:add(rl.observer { activities = "all", repeats = false, callback = f })
              rl.after(0.01, function() s:invalidate() end)
              pcall(function() local t = rl.timer { delay = 1, callback = f } t:fire() end)
            end
            rl.sleep(0.1)
            collectgarbage() collectgarbage()
            rl.sleep(0.1)
            return tostring(seen)
            """
        #expect(try world.run(script) == "60")
        #expect(world.uncaught == [])
    }
}
