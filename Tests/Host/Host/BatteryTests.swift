import Synchronization
import TestSupport
import Testing

@testable import Lua
@testable import LuaRunLoops
@testable import LuaTesting
@testable import RunLoops

/// A module besides `runloop`: `require` finds it by its name, and makes it in each state that requires it; the module
/// has data for each state.
@Suite(.timed) struct BatteryTests {
    private final class Clapper: Schedulable {
        var count = 0
        var modes: [RunLoop.Mode] = []
        var name: String { "hands" }
        func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse) {
            if mode == .common { throw Misuse("clappers are in one mode") }
            modes.append(mode)
        }
        func remove(from loop: RunLoop, mode: RunLoop.Mode) { modes.removeAll { $0 == mode } }
        func isIn(_ loop: RunLoop, mode: RunLoop.Mode) -> Bool { modes.contains(mode) }
    }

    private final class Claps: HostPart {
        var total = 0
        let source = RunLoop.Source(name: "hall")
        override func willClose() { closed.withLock { $0 += 1 } }
        override func reset() { total = 0 }
        override func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {
            if item === source { (entry.kind, entry.detail) = ("hall", "\(total) claps") }
        }
    }

    private enum ClapBinding {
        static let battery = Battery("runloop.clap", kinds: [clapper], functions: functions)
        static let functions = Library(
            "clap.",
            [
                .init("clapper", constructs: clapper) { Call($0).answerConstructed(Clapper()) },
                .init("open_hall") { openHall(Call($0)) },
            ])
        static let clapper: Kind = Kind("clapper", methods: methods, collect: Kind.drop)
        static let methods = Library(
            of: clapper,
            [
                .init("clap") {
                    receiver($0, Clapper.self).run { clapper, call in
                        clapper.count += 1
                        call.luaHost.part(Claps.self).total += 1
                        return call.answer(clapper.count)
                    }
                },
                .init("__tostring") { receiver($0, Clapper.self).answer { _ in "clapper" } },
            ])

        private static func openHall(_ call: Call) -> Int32 {
            let host = call.luaHost
            host.loop.add(host.part(Claps.self).source, to: .default)
            return call.nothing()
        }
    }

    /// The number of calls of `willClose`.
    private static let closed = Mutex(0)

    private static let batteries: @Sendable () -> [Battery] = {
        [
            ClapBinding.battery,
            Battery("runloop.bell", refusal: "module 'runloop.bell': libbell.so.1 is not installed"),
            // A battery with a Lua half that exists.
            Battery("runloop.prompt", functions: Library([.init("open_hall") { Call($0).nothing() }])),
        ]
    }

    private static func run(_ script: String, then: (LuaHost) -> Void = { _ in }) throws -> String {
        let loop = RunLoop(poller: EpollPoller())
        defer { loop.close() }
        let host = try #require(LuaHost(loop: loop, batteries: batteries))
        try #require(host.openLibraries(ignoringEnvironment: true) == nil)
        var result = "nothing"
        host.onUncaught = { _, failure in result = failure.text }
        if let message = host.load(.text(script, name: "=test")) { return message }
        _ = host.start { task in
            task.onFailure = { result = "failed: \($0.traceback)" }
            task.onResults = { stack, count in if count > 0 { result = stack.string(-1) ?? "no string" } }
        }
        loop.run(in: .default, for: .milliseconds(20))
        then(host)
        host.close()
        return result
    }

    @Test("a module's objects work after it was required") func itsObjectsWorkWhereItIsRequired() throws {
        let found = try Self.run(
            """
            local clap = require "runloop.clap"
            assert(clap == require "runloop.clap" and package.loaded.runloop)
            local a, b = clap.clapper(), clap.clapper()
            a:clap() b:clap()
            return a:clap() .. tostring(a) .. select(2, pcall(a.clap, io.stdout))
            """)
        #expect(
            found == "2clappertest:5: clapper:clap: a clapper is expected as self, got a userdata; call it with a colon"
        )
    }

    @Test("a module can be required in a thread") func aThreadHasItToo() throws {
        let found = try Self.run(
            """
            local rl = require "runloop"
            local thread = rl.thread(function() local c = require("runloop.clap").clapper() c:clap() return c:clap() \
            end)
            return table.concat({ tostring(select(2, thread:join())) })
            """)
        #expect(found == "2")
    }

    @Test("nothing is made before a module is required") func nothingIsMadeBeforeItIsRequired() throws {
        let host = try #require(LuaHost(loop: RunLoop(poller: SimulatedPoller()), batteries: Self.batteries))
        #expect(host.openLibraries(ignoringEnvironment: true) == nil)
        #expect(host.load(.text("require 'runloop'", name: "=test")) == nil && host.start() != nil)
        #expect(host.parts.isEmpty)
    }

    @Test("a missing dependency is reported when the module is required") func whatIsMissingIsSaidWhereItIsRequired()
        throws
    {
        #expect(
            try Self.run("return select(2, pcall(require, 'runloop.bell'))")
                == "test:1: module 'runloop.bell': libbell.so.1 is not installed")
        #expect(
            try Self.run("return select(2, pcall(require, 'runloop.clapp')):match '[^\\n]*'")
                == "module 'runloop.clapp' not found:")
        #expect(
            try Self.run("return select(2, pcall(require, 'runloop.clap.loud')):match '[^\\n]*'")
                == "module 'runloop.clap.loud' not found:")
    }

    @Test("the host's own code alone can require private parts") func privateParts() throws {
        // The inspector needs no functions.
        let code = "return type(require 'runloop.inspect'.inspect)"
        #expect(
            try Self.run("return select(2, pcall(require, 'runloop.inspect')):match '[^\\n]*'")
                == "module 'runloop.inspect' not found:")
        let loop = RunLoop(poller: EpollPoller())
        defer { loop.close() }
        let host = try #require(LuaHost(loop: loop, batteries: Self.batteries))
        defer { host.close() }
        try #require(host.openLibraries(ignoringEnvironment: true) == nil)
        try #require(host.load(.own(code)) == nil)
        var result: String?
        _ = host.start { task in task.onResults = { stack, _ in result = stack.string(-1) } }
        #expect(result == "function")
    }

    @Test("a script may have its own module next to it") func aScriptMayPutItsOwnModuleBesideIt() throws {
        #expect(
            try Self.run(
                "package.preload['runloop.mine'] = function() return 'mine' end return (require 'runloop.mine')")
                == "mine")
    }

    @Test("a module's objects can be added to loops") func itsObjectsAreAddedToLoops() throws {
        let found = try Self.run(
            """
            local rl, clap = require "runloop", require "runloop.clap"
            local c, loop = clap.clapper(), rl.current()
            loop:add(c, { "default", "mine" })
            local before = loop:contains(c, "mine")
            loop:remove(c, "mine")
            return tostring(before) .. tostring(loop:contains(c)) .. tostring(loop:contains(c, "mine"))
              .. select(2, pcall(loop.add, loop, c, "common"))
            """)
        #expect(found == "truetruefalsetest:7: loop:add: clappers are in one mode")
    }

    @Test("a module's part is closed and reset, and describes its items") func itsPartIsToldAndAsked() throws {
        var whys: [String] = []
        let before = Self.closed.withLock { $0 }
        let found = try Self.run(
            "local clap = require 'runloop.clap' clap.clapper():clap() clap.open_hall() return require('runloop').why()"
        ) { host in
            host.part(Claps.self).reset()
            whys.append(host.why())
        }
        #expect(found.contains("hall \"hall\" (1 claps)"))
        #expect(whys.first?.contains("hall \"hall\" (0 claps)") == true)
        #expect(Self.closed.withLock { $0 } >= before + 2)
    }
}
