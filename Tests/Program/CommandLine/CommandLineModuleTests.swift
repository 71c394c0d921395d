import Foundation
import TestSupport
import Testing

@Suite("Command line: modules of the distribution", .timed)
struct CommandLineModuleTests {
    /// Uses each C module for something real, and prints "ok".
    static let uses: [String: String] = [
        "cjson": "local t = m.decode(m.encode {1, {x = 'ä'}, m.null}) assert(t[2].x == 'ä' and t[3] == m.null)",
        "lpeg":
            "local n = m.R'09'^1 / tonumber assert(m.match(m.Cf(n * (m.P'+' * n)^0, function(a, b) return a + b end), "
            + "'1+2+39') == 42)",
        "posix": "local r, w = m.pipe() m.write(w, 'abc') assert(m.read(r, 10) == 'abc' and m.getpid() > 1)",
        "socket": """
        local l = assert(m.bind('127.0.0.1', 0)) local _, port = l:getsockname()
        local c = assert(m.connect('127.0.0.1', port)) local a = l:accept()
        c:send('hello\\n') assert(a:receive() == 'hello') c:close()
        local r, e = a:receive() assert(r == nil and e == 'closed')
        -- Without a reader, send returns an error, and the process continues.
            for i = 1, 9 do a:send(('x'):rep(100000)) end
        """,
        "luv":
            "local n = 0 local t = m.new_timer() t:start(1, 1, function() n = n + 1 if n == 3 then t:stop() t:close() "
            + "end end) m.run() assert(n == 3)",
        "cqueues":
            "local q, n = m.new(), 0 q:wrap(function() m.sleep(0.001) n = 1 end) assert(q:loop()) assert(n == 1)",
        "lfs": "assert(m.attributes('/', 'mode') == 'directory')",
    ]

    @Test("the host's modules work whatever a script does to its globals")
    func emptied() throws {
        let script = """
            local rl, print, pcall = require "runloop", print, pcall
            local globals = _G
            for name in pairs(globals) do globals[name] = nil end
            local function try(fn, ...)
              local fine, message = pcall(fn, ...)
              if not fine then print(message) end
            end
            try(rl.blocking, function() return 1 end) try(rl.pool) try(rl.group) try(rl.condition) try(rl.channel)
            try(rl.at, 0, function() end) try(rl.debounce, 1, print) try(rl.on_shutdown, print)
            try(rl.trace.span, "x", function() end) try(rl.trace.mark, "x", 1) try(rl.all_of, { function() end })
            try(rl.settle_all, { function() end }) try(rl.thread, function() end)
            try(rl.notifications.enqueue, rl.notifications, "x") try(rl.port().send, rl.port(), { id = 1 })
            try(rl.thread, 5) try(function() rl.channel():x() end) try(rl.thread, { print, nam = 1 })
            """
        let run = try Binary.run(["-"], input: script)
        #expect(
            run.output.split(separator: "\n").map(String.init) == [
                "stdin:5: rl.thread: argument #1 must be a function, got 5",
                "stdin:13: channels have close(), count(), is_closed(), receive(), send(), values(), not x()",
                "stdin:5: rl.thread: unknown field 'nam' (did you mean 'name'?)",
            ] && run.status == 0, "\(run)")
    }

    @Test("C modules load and work", arguments: uses.keys.sorted())
    func use(_ name: String) throws {
        let text = "local m = require '\(name)' \(Self.uses[name] ?? "") print 'ok'"
        // Not every distribution has every module for Lua 5.4.
        guard let lua = Binary.lua, try Binary.run(["-l", name, "-e", ""], program: lua).status == 0 else { return }
        let result = try Binary.run(["-e", text])
        #expect(result.output == "ok\n" && result.status == 0, "\(result.errors)")
    }

    private static func isInstalled(_ path: String) -> Bool { FileManager.default.isExecutableFile(atPath: path) }

    @Test("busted runs, and fails when a test does", .enabled(if: isInstalled("/usr/bin/busted")))
    func busted() throws {
        try Binary.withDirectory { directory in
            try Sample.write(
                "describe('a', function() it('b', function() assert.are.same({1}, {1}) end) end)", to: "good.lua",
                in: directory)
            try Sample.write(
                "it('c', function() assert.are.equal(1, 2) end) it('d', function() error('x') end)", to: "bad.lua",
                in: directory)
            let good = try Binary.run(["/usr/bin/busted", "-o", "TAP", "good.lua"], directory: directory)
            #expect(good.status == 0 && good.output.contains("ok 1 - a b"), "\(good)")
            let bad = try Binary.run(["/usr/bin/busted", "-o", "TAP", "bad.lua"], directory: directory)
            #expect(bad.status > 0 && bad.status < 126 && bad.output.contains("not ok 1 - c"), "\(bad)")
        }
    }

    @Test("luarocks runs", .enabled(if: isInstalled("/usr/bin/luarocks")))
    func luarocks() throws {
        let version = try Binary.run(["/usr/bin/luarocks", "--version"])
        #expect(version.status == 0 && version.output.contains("luarocks"), "\(version)")
        let list = try Binary.run(["/usr/bin/luarocks", "list"])
        #expect(list.status == 0 && list.output.contains("Rocks installed for Lua 5.4"), "\(list)")
    }
}
