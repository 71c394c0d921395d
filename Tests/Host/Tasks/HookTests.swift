import Foundation
import TestSupport
import Testing

/// debug.sethook, in programs where every callback has a coroutine.
@Suite("Debug hooks", .timed)
struct HookTests {
    private static func run(_ script: String) throws -> Binary.Result {
        try Binary.run(["-"], input: "local rl = require 'runloop' " + script, timeout: 30)
    }

    @Test("a hook that a callback sets ends with the callback")
    func ofCallback() throws {
        let run = try Self.run(
            """
            rl.after(0, function() debug.sethook(function() error("budget", 2) end, "", 1000) end)
            rl.after(0.01, function() for i = 1, 100000 do end print("victim done", debug.gethook()) end)
            rl.task(function() rl.sleep(0.02) for i = 1, 100000 do end print "task done" end)
            """)
        #expect(run.output == "victim done\tnil\ntask done\n" && run.status == 0, "\(run)")
    }

    @Test(
        "a hook of the main chunk holds for all callbacks and tasks, also waiting ones, until it is removed"
    )
    func ofChunk() throws {
        let run = try Self.run(
            """
            local lines = {}
            local function hook(event, line)
              assert(event == "line" and debug.getinfo(2, "S"))
              lines[line] = (lines[line] or 0) + 1
            end
            local early = rl.task(function()
              rl.sleep(0.01)
              local early = 8
            end)
            debug.sethook(hook, "l")
            rl.after(0.02, function()
              local timer = 12
              local set, mask, count = debug.gethook()
              assert(set == hook and mask == "l" and count == 0)
            end)
            local task = rl.task(function()
              local task = 17
              rl.sleep(0.03)
              local task = 19
            end)
            rl.sleep(0.1)
            debug.sethook()
            rl.after(0, function()
              local unseen = 24
              assert(debug.gethook() == nil)
            end)
            rl.sleep(0.01)
            for _, line in ipairs { 8, 12, 17, 19, 24 } do print(line, lines[line]) end
            """)
        #expect(run.output == "8\t1\n12\t1\n17\t1\n19\t1\n24\tnil\n" && run.status == 0, "\(run)")
    }

    @Test(
        "coroutines of the script have no hook, as under lua, and threads have their own")
    func ofOthers() throws {
        let run = try Self.run(
            """
            local n = 0
            debug.sethook(function() n = n + 1 end, "c")
            local function f() end
            local before = n
            local co = coroutine.wrap(function() for i = 1, 100 do f() end end)
            co()
            print(n - before < 20)
            debug.sethook()
            print(rl.thread(function()
              local rl = require "runloop"
              local n = 0
              local function f() end
              debug.sethook(function() n = n + 1 end, "c")
              rl.task(function() for i = 1, 100 do f() end end):await()
              return n >= 100
            end):join())
            """)
        #expect(run.output == "true\ntrue\ttrue\n" && run.status == 0, "\(run)")
    }

    @Test("a hook that counts lines sees a whole program, as luacov does: set with -l, for the script")
    func ofModule() throws {
        try Binary.withDirectory { directory in
            try #"""
            local lines = {}
            debug.sethook(function(_, line) lines[#lines + 1] = line end, "l")
            return lines
            """#.write(toFile: directory + "/cover.lua", atomically: true, encoding: .utf8)
            try #"""
            local rl = require "runloop"
            rl.after(0, function()
              local callback = 3
              debug.sethook()
              print(table.concat(cover, " "):match "3 4$")
            end)
            """#.write(toFile: directory + "/script.lua", atomically: true, encoding: .utf8)
            let run = try Binary.run(["-l", "cover", "script.lua"], directory: directory)
            #expect(run.output == "3 4\n" && run.status == 0, "\(run)")
        }
    }
}
