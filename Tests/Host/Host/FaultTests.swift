import Foundation
import TestSupport
import Testing

/// Failures of system calls.
@Suite("Faults", .timed)
struct FaultTests {
    private static let script = """
        local rl = require "runloop"
        local name = "faults"
        local server = assert(rl.message_port { name = name, callback = function(_, id, data) return data:upper() end })
        rl.current():add(server)
        local remote = assert(rl.remote_port(name))
        for i = 1, 3 do remote:send(i, "x") end
        print(remote:request(4, "abc", { reply_timeout = 5 }))
        server:invalidate()
        """

    /// ENOBUFS is 105, ENOMEM 12, ENOSPC 28, EIO 5.
    @Test("a message waits while there is no memory for it", arguments: ["send:105:2:1", "send:12:1:3"])
    func shortage(fault: String) throws {
        let result = try run(Self.script, ["FAULT": fault])
        #expect(result.output == "ABC\n", "\(result)")
    }

    @Test("a connection that can no longer be used returns an error", arguments: ["send:5:2:99", "epoll_ctl:28:3:99"])
    func end(fault: String) throws {
        let result = try run(Self.script, ["FAULT": fault])
        #expect(result.status >= 0, "\(result)")
        #expect(!result.output.contains("reply timed out"), "\(result)")
    }

    @Test("a lack of descriptors for new connections is reported once")
    func saidOnce() throws {
        let script = """
            local rl = require "runloop"
            local server = assert(rl.message_port { name = "faults", callback = function() return "" end })
            rl.current():add(server)
            print(assert(rl.remote_port "faults"):request(1, ""))
            server:invalidate()
            """
        let result = try run(script, ["FAULT": "accept4:24:1:5"])
        #expect(result.output == "\n", "\(result)")
        #expect(result.errors.components(separatedBy: "tries again").count == 2, "\(result)")
    }

    @Test("more events than there is room for are ignored")
    func lies() throws {
        let script = """
            local rl = require "runloop"
            local ends = {}
            local port = rl.fd_port { fd = io.popen "echo there", callback = function(port) \
            print "ready" port:invalidate() end }
            rl.current():add(port)
            rl.run { timeout = 5, mode = "default" }
            """
        for count in [65, 4096, 1_000_000] {
            let result = try run(script, ["FAULT": "epoll_wait:\(count):1:1000"])
            #expect(result.output == "ready\n" && result.status == 0, "\(result)")
        }
    }

    /// Even if a call fails, a program exits normally, and not by a signal.
    @Test("calls that fail at random neither crash nor hang", .soak(seconds: 60))
    func random() throws {
        let script = """
            local rl = require "runloop"
            rl.on_error(function() end)
            local function try(f, ...) return pcall(f, ...) end
            try(function()
              local server = assert(rl.message_port { name = "faults", callback = function(_, id, data) \
            return data end })
              rl.current():add(server)
              for i = 1, 20 do
                local remote = rl.remote_port "faults"
                if remote then
                  for n = 1, 5 do remote:send(n, ("x"):rep(n * 1000), { timeout = 0.1 }) end
                  remote:request(9, "y", { reply_timeout = 0.1, send_timeout = 0.1 })
                  remote:invalidate()
                end
              end
              server:invalidate()
            end)
            for i = 1, 10 do
              try(function() rl.thread(function() return 1 end):join(1) end)
              try(function()
                local file = assert(io.open("/dev/null"))
                local port = rl.fd_port { fd = file, callback = function(port) port:invalidate() end }
                if port then rl.current():add(port, "mode " .. i) rl.current():run { mode = "mode " .. i, \
            timeout = 0.05 } port:invalidate() end
              end)
            end
            os.exit(0)
            """
        for seed in Soak.seeds {
            let result = try run(script, ["FAULTS": "\(seed + 1)"])
            // Status 1 means that the loop could not be made.
            #expect([0, 1].contains(result.status), "RLHOST_SEED=\(seed): \(result)")
        }
    }

    private func run(_ script: String, _ environment: [String: String]) throws -> Binary.Result {
        let shim = try Self.shim.get()
        return try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let own = ["XDG_RUNTIME_DIR": directory, "LD_PRELOAD": shim]
            return try Binary.run(["-e", script], environment: environment.merging(own) { $1 })
        }
    }

    /// The compiled library.
    private static let shim = Result {
        let source = Binary.repository + "/Tests/Host/Scripts/faults.c"
        let target = FileManager.default.temporaryDirectory.appendingPathComponent("rlhost-faults-\(getpid()).so").path
        let compiled = try Binary.run(
            ["clang", "-O1", "-w", "-shared", "-fPIC", "-o", target, source], program: "/usr/bin/env", name: "env")
        guard compiled.status == 0 else { throw Binary.Failure(description: "clang: \(compiled.errors)") }
        return target
    }
}
