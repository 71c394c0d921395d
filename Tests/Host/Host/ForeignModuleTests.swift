import Foundation
import TestSupport
import Testing

/// C modules with faults that lua5.4 forgives.
@Suite("Foreign modules", .timed) struct ForeignModuleTests {
    /// The directory of the compiled module.
    private static let module = Result {
        let source = Binary.repository + "/Tests/Host/Scripts/foreign.c"
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-foreign-\(getpid())").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let compiled = try Binary.shell(
            "clang -O1 -w -shared -fPIC $(pkg-config --cflags lua5.4) -o \(directory)/foreign.so \(source)")
        guard compiled.status == 0 else { throw Binary.Failure(description: "clang: \(compiled.errors)") }
        return directory
    }

    private func run(_ script: String, _ environment: [String: String] = [:]) throws -> Binary.Result {
        let path = try Self.module.get() + "/?.so"
        return try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let own = ["LUA_CPATH": path, "XDG_RUNTIME_DIR": directory, "DIRECTORY": directory]
            return try Binary.run(["-"], input: script, environment: environment.merging(own) { $1 })
        }
    }

    @Test("a child that a module forks leaves the parent's descriptors, ports and sockets alone")
    func fork() throws {
        let script = """
            local rl, net, foreign = require "runloop", require "runloop.net", require "foreign"
            local pipe = io.popen "sleep 0.3; printf abc"
            local path = os.getenv "DIRECTORY" .. "/socket"
            local server = assert(net.serve("unix:" .. path, function(stream) stream:write "served" end))
            local named = assert(rl.message_port { name = "com.example.forks", callback = function() \
            return "answered" end })
            rl.current():add(named)
            local got = 0
            local port
            port = rl.on_readable(pipe, function()
              local text = pipe:read "a"
              print(text)
              port:invalidate()
              print(assert(net.connect("unix:" .. path)):read_all())
              print(assert(rl.remote_port "com.example.forks"):request(1, ""))
              server:close()
              named:invalidate()
            end)
            rl.after(0.05, function()
              local child = foreign.fork()
              if child == 0 then
                port:invalidate()
                server:close()
                named:invalidate()
                os.exit(7, true)
              end
              print("child", foreign.wait(child))
            end)
            """
        let result = try run(script)
        #expect(result.output == "child\t7\nabc\nserved\nanswered\n" && result.status == 0, "\(result)")
    }

    @Test("a forked child does not end the parent's programs and streams, or send their output")
    func forkOfModules() throws {
        let script = """
            local net, foreign = require "runloop.net", require "foreign"
            local a, b = net.pair()
            local program = require "runloop.process".start { "sleep", "0.5" }
            a:write "one\\n"
            local child = foreign.fork()
            if child == 0 then os.exit(7, true) end
            print("child", foreign.wait(child))
            a:write "two\\n"
            a:finish()
            print(b:read_all { timeout = 5 })
            print(program:wait(5))
            """
        let result = try run(script)
        #expect(result.output == "child\t7\none\ntwo\n\nexit\t0\n" && result.status == 0, "\(result)")
    }

    @Test("a forked child does not remove the parent's watches")
    func forkOfWatchers() throws {
        let script = """
            local rl, fs, foreign = require "runloop", require "runloop.fs", require "foreign"
            local directory, seen = os.getenv "DIRECTORY", nil
            local watcher <close> = assert(fs.watch(directory, { latency = 0.01 }, function(changes) \
            seen = changes[1].path:match "[^/]*$" end))
            local child = foreign.fork()
            if child == 0 then os.exit(7, true) end
            foreign.wait(child)
            io.open(directory .. "/file", "w"):close()
            local limit = rl.now() + 5
            while not seen and rl.now() < limit do rl.sleep(0.01) end
            print(seen)
            """
        let result = try run(script)
        #expect(result.output == "file\n" && result.status == 0, "\(result)")
    }

    @Test("a state's allocator can be used in other threads, while the owner goes on", arguments: ["", "1"])
    func threads(plain: String) throws {
        let script = """
            local foreign = require "foreign"
            local damaged = 0
            for round = 1, 5 do
              foreign.begin()
              local keep = {}
              for i = 1, 50000 do keep[i % 1000] = { ("x"):rep(i % 100), i } end
              damaged = damaged + foreign.finish()
              collectgarbage()
            end
            print(damaged)
            """
        let result = try run(script, plain.isEmpty ? [:] : ["RLHOST_MALLOC": plain])
        #expect(result.output == "0\n" && result.status == 0, "\(result)")
    }

    @Test("a program has its arguments without /proc, too")
    func withoutProc() throws {
        let hides = "unshare -Urm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh"
        guard try Binary.shell("\(hides) true").status == 0 else { return }
        let result = try Binary.withDirectory { directory in
            try "print(#arg, ...)".write(toFile: directory + "/script.lua", atomically: true, encoding: .utf8)
            return try Binary.shell("\(hides) \"$RLHOST\" script.lua one 'two words'", directory: directory)
        }
        #expect(result.output == "2\tone\ttwo words\n", "\(result)")
    }
}
