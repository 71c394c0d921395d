import Foundation
import TestSupport
import Testing

/// Full disks, memory that runs out, and the limits on the number of watched directories.
@Suite("File faults", .timed) struct FileFaultTests {
    /// The compiled library.
    private static let shim = Result {
        let source = Binary.repository + "/Tests/Host/Scripts/faults.c"
        let target = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-disk-\(getpid()).so").path
        let compiled = try Binary.run(
            ["clang", "-O1", "-w", "-shared", "-fPIC", "-o", target, source], program: "/usr/bin/env", name: "env")
        guard compiled.status == 0 else { throw Binary.Failure(description: "clang: \(compiled.errors)") }
        return target
    }

    /// Runs a script in a directory that has the file `old` and the directories `a/b`.
    private func run(_ script: String, _ fault: String) throws -> Binary.Result {
        let shim = try Self.shim.get()
        return try Binary.withDirectory { directory in
            try "old".write(toFile: directory + "/old", atomically: true, encoding: .utf8)
            try FileManager.default.createDirectory(atPath: directory + "/a/b", withIntermediateDirectories: true)
            let prologue = "rl, fs = require 'runloop', require 'runloop.fs' directory = os.getenv 'DIRECTORY' "
            return try Binary.run(
                ["-e", prologue + script],
                environment: ["FAULT": fault, "LD_PRELOAD": shim, "DIRECTORY": directory])
        }
    }

    @Test("a full disk leaves the old file unchanged, and no incomplete new one")
    func fullDisk() throws {
        let script = """
            print(select(3, fs.write(directory .. "/old", ("x"):rep(10 << 20))))
            print(fs.read(directory .. "/old"))
            for _, entry in ipairs(fs.list(directory)) do print(entry.name) end
            """
        let result = try run(script, "write:28:1:99")
        #expect(result.output == "ENOSPC\nold\na\nold\n" && result.status == 0, "\(result)")
    }

    // Reading the directory takes five system calls: for the directory itself, its parent, two entries, and the end;
    // reading `a` takes four, and `b` three.
    @Test(
        "an error in the middle of a directory is returned instead of a shorter list",
        arguments: [
            (1, "EIO: input/output error () EIO, 3"), (3, "EIO: input/output error () EIO, 3"),
            (5, "EIO: input/output error () EIO, 3"), (6, "2 nil, fs.walk: EIO: input/output error ()"),
            (10, "2 nil, fs.walk: EIO: input/output error ()"), (11, "2 nil, fs.walk: EIO: input/output error (/a)"),
            (14, "2 nil, fs.walk: EIO: input/output error (/a)"),
            (15, "2 nil, fs.walk: EIO: input/output error (/a/b)"),
            (17, "2 nil, fs.walk: EIO: input/output error (/a/b)"), (18, "2 nil, 3"),
        ])
    func directory(call: Int, expected: String) throws {
        let script = """
            local function without(problem) return (problem:gsub(directory:gsub("%p", "%%%0"), "", 1)) end
            local list, problem, code = fs.list(directory)
            local count = 0
            local walks, trouble = pcall(function() for _ in fs.walk(directory) do count = count + 1 end end)
            print(("%s %s, %s"):format(list and #list or without(problem), code, walks and count or without(trouble)))
            """
        let result = try run(script, "readdir:5:\(call):1")
        #expect(result.output == expected + "\n" && result.status == 0, "\(result)")
    }

    @Test("an interruption is not an error")
    func interrupted() throws {
        let script = """
            print(fs.write(directory .. "/old", "new"), fs.read(directory .. "/old"))
            """
        let result = try run(script, "write:4:1:3")
        #expect(result.output == "true\tnew\n", "\(result)")
    }

    @Test("the limit of watches gives an error that names the setting to raise", arguments: [1, 3])
    func watches(call: Int) throws {
        let script = "print(fs.watch(directory, { recursive = true }, print))"
        let result = try run(script, "inotify_add_watch:28:\(call):99")
        #expect(
            result.output.hasPrefix("nil\tENOSPC: too many directories are watched: raise the limit, sysctl "),
            "\(result)")
        #expect(
            result.output.contains("fs.inotify.max_user_watches") && result.output.hasSuffix("\tENOSPC\n"), "\(result)")
        let none = try run(script, "inotify_init1:24:1:99")
        #expect(none.output.contains("EMFILE") && none.output.contains("fs.inotify.max_user_instances"), "\(none)")
    }

    @Test("the watcher reports a new directory that it cannot watch, with the error")
    func later() throws {
        let script = """
            local watcher = assert(fs.watch(directory, { recursive = true }))
            fs.make_directory(directory .. "/late")
            local limit = rl.now() + 20
            repeat
              for _, change in ipairs(watcher:next(1) or {}) do
                if change.message then print(change.kind, change.message:match "max_user_watches") limit = 0 end
              end
            until rl.now() > limit
            watcher:invalidate()
            """
        // The first three watches succeed, all later ones fail.
        let result = try run(script, "inotify_add_watch:28:4:99")
        #expect(result.output.contains("max_user_watches") && result.status == 0, "\(result)")
    }

    @Test("changes that the kernel has no room to watch are reported late, but not lost", arguments: [2, 3, 4])
    func room(call: Int) throws {
        let script = """
            local net = require "runloop.net"
            local server = assert(net.serve("127.0.0.1:0", function(c) for line in c:lines() do c:write(line, "\\n") end end))
            for _ = 1, 5 do
              local client <close> = assert(net.connect(server:address()))
              client:write "hello\\n"
              io.write(tostring(client:read_line { timeout = 10 }), " ")
            end
            server:stop(1)
            """
        for times in [1, 5] {
            let result = try run(script, "epoll_ctl:28:\(call):\(times)")
            #expect(result.output == "hello hello hello hello hello " && result.status == 0, "\(times): \(result)")
        }
    }

    @Test(
        "a thread that cannot be started returns an error that names the call's subject",
        .disabled(if: Binary.isUnderThreadSanitizer))
    func threads() throws {
        let script = """
            local net = require "runloop.net"
            local function say(_, problem, code) print(code, (problem:gsub("%(/.*%)$", "(path)"):gsub("%d+", "N"))) end
            say(fs.read(directory .. "/old"))
            say(fs.list(directory))
            local stream = net.open(assert(io.open(directory .. "/old")))
            say(stream:read_all())
            local output = net.open(assert(io.open(directory .. "/new", "w")))
            output:queue "text"
            say(output:flush())
            say(output:write "more")
            """
        let result = try run(script, "pthread_create:11:1:5")
        #expect(
            result.output == """
                EAGAIN\tEAGAIN: no thread can be started (path)
                EAGAIN\tEAGAIN: no thread can be started (path)
                EAGAIN\tEAGAIN: no thread can be started (descriptor N)
                EAGAIN\tEAGAIN: no thread can be started (descriptor N)
                EAGAIN\tEAGAIN: no thread can be started (descriptor N)

                """, "\(result)")
        // Only four calls fail: after them a thread can start.
        let again = try run(script + "print(stream:read_all(), fs.read(directory .. '/old'))", "pthread_create:11:1:4")
        #expect(again.output.hasSuffix("old\told\n"), "\(again)")
    }

    @Test("blocked calls do not delay others, and continue when they can")
    func standStill() throws {
        let script = """
            local process = require "runloop.process"
            local waiting, ended = {}, 0
            for i = 1, 20 do
              local path = directory .. "/pipe" .. i
              assert(process.run { "mkfifo", path })
              waiting[i] = rl.task(function()
                assert(i % 2 == 0 and fs.write(path, "text", { append = true }) or fs.read(path) == "text")
                ended = ended + 1
              end)
            end
            for _ = 1, 100 do assert(fs.read(directory .. "/old") == "old") end
            print(ended)
            for i = 1, 20 do
              local path = directory .. "/pipe" .. i
              if i % 2 == 0 then assert(fs.read(path) == "text") else assert(fs.write(path, "text")) end
            end
            rl.all_of(waiting)
            print(ended, #fs.list(directory))
            """
        let result = try run(script, "none:0:0:0")
        #expect(result.output == "0\n20\t22\n" && result.status == 0, "\(result)")
    }

    @Test("the limit of a file's size returns an error, and does not end the process")
    func sizeLimit() throws {
        let script = """
            local log = require "runloop.log".open { to = "x.log" }
            for i = 1, 100 do log:info(("y"):rep(100)) end
            print(select(3, require "runloop.fs".write("x", ("y"):rep(10000))))
            local file = io.open("z", "w")
            file:setvbuf "no"
            print(select(2, file:write(("y"):rep(10000))), os.execute "kill -XFSZ $$")
            """
        try Binary.withDirectory { directory in
            try script.write(toFile: directory + "/script.lua", atomically: true, encoding: .utf8)
            let result = try Binary.shell("ulimit -f 4; $RLHOST script.lua 2>&1 | cat", directory: directory)
            #expect(
                result.output == """
                    script.lua: cannot write the log to x.log: EFBIG: file too large
                    EFBIG
                    File too large\tnil\tsignal\t25

                    """, "\(result)")
        }
    }

    @Test("a name that does not exist and silent name servers return different errors")
    func names() throws {
        let script = """
            local net, http = require "runloop.net", require "runloop.http"
            for _, fn in ipairs { net.resolve, function(name) return net.connect(name .. ":80") end,
              function(name) return http.get("http://" .. name .. "/") end,
              function(name) return http.open { "http://" .. name .. "/" } end,
              function(name) return http.get("http://127.0.0.1/", { proxy = "http://" .. name .. ":3128" }) end,
              function(name) return http.websocket("ws://" .. name .. "/") end } do
              local _, problem, code = fn "some.invalid"
              print(code, problem:match "^%u[%u_]+: ([^(]+)", problem:find("some.invalid", 1, true) ~= nil)
            end
            """
        let unknown = try run(script, "getaddrinfo:-2:1:99")
        let lines = unknown.output.split(separator: "\n")
        #expect(
            lines.count == 6 && lines.allSatisfy { $0.hasPrefix("ENOTFOUND\t") && $0.hasSuffix("\ttrue") }, "\(unknown)"
        )
        let silent = try run(script, "getaddrinfo:-3:1:99")
        #expect(
            silent.output == String(repeating: "EAI_AGAIN\tthe name servers do not answer \ttrue\n", count: 6),
            "\(silent)")
    }

    @Test(
        "a lack of memory for large data returns an error", .disabled(if: Binary.isUnderThreadSanitizer))
    func memory() throws {
        let result = try Binary.withDirectory { directory in
            try """
            local fs, net = require "runloop.fs", require "runloop.net"
            do
              local text, a = ("x"):rep(30000000), net.pair()
              local code = select(3, a:queue(text, text, text, text, text, text))
              print(code == "ENOMEM" or code == "ENOBUFS")
            end
            collectgarbage()
            print(select(3, fs.read "large"))
            local stream = net.open(assert(io.open "large"))
            print(select(3, stream:read_all { max = 1000000000 }))
            print(#stream:read(10))
            """.write(toFile: directory + "/script.lua", atomically: true, encoding: .utf8)
            return try Binary.shell(
                "truncate -s 400M large; ulimit -v 300000; $RLHOST script.lua", directory: directory, timeout: 60)
        }
        #expect(
            result.output
                == "true\nENOMEM\nENOMEM\n10\n" && result.status == 0,
            "\(result)")
    }
}
