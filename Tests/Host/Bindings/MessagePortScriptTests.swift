import Foundation
import TestSupport
import Testing

@Suite("Message ports in scripts", .timed)
struct MessagePortScriptTests {
    /// Answers in capitals until it gets message 0. Message 2 is answered after a while. Writes errors to standard
    /// error.
    private static let server = """
        local rl = require "runloop"
        rl.on_error(function(err) io.stderr:write("error: ", tostring(err), "\\n") end)
        rl.current():add(assert(rl.message_port { name = "server", callback = function(port, id, data)
          if id == 0 then port:invalidate() return end
          if id == 2 then rl.sleep(0.3) end
          if id == 3 then error("boom", 0) end
          if id == 4 then return 42 end
          if id == 5 then return end
          return data:upper()
        end }))
        print "ready"
        io.flush()
        """

    /// Makes a directory for the sockets, starts a server in it, and calls `body` for a client.
    private func withServer(
        _ script: String = server, limit: String? = nil, _ body: (_ environment: [String: String]) throws -> Void
    ) throws -> Binary.Result {
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let environment = ["XDG_RUNTIME_DIR": directory]
            let process =
                try limit.map {
                    try Binary.Process(
                        ["-c".utf8, "ulimit -n \($0); exec \(Binary.path) -e '\(script)'".utf8].map(Array.init),
                        environment: environment.map { Array("\($0)=\($1)".utf8) }, program: "/bin/sh", name: "sh")
                } ?? Binary.Process(["-e", script], environment: environment)
            #expect(process.waitForOutput("ready"), "\(process.errorText)")
            try body(environment)
            return process.finish(timeout: 20)
        }
    }

    private static let client = "local rl = require 'runloop' local remote = assert(rl.remote_port 'server') "
    private static let quit = " remote:request(0, '')"

    @Test("a port may answer the message that makes it end")
    func lastAnswer() throws {
        let script = Self.server.replacing(
            "if id == 0 then port:invalidate() return end",
            with: "if id == 0 then port:invalidate() return ('bye'):rep(1 << 20) end")
        let server = try withServer(script) { environment in
            let run = try Binary.run(
                [
                    "-e",
                    Self.client + "local a = remote:request(0, '') print(#a, a:sub(1, 6)) print(remote:request(1, ''))",
                ],
                environment: environment)
            #expect(run.output == "3145728\tbyebye\nnil\tinvalid\n", "\(run)")
        }
        #expect(server.status == 0 && server.errors == "", "\(server)")
    }

    @Test("a request waits in its task, or runs the loop in a mode; both get the answer, or the reason of a failure")
    func requests() throws {
        let server = try withServer { environment in
            let run = try Binary.run(
                [
                    "-e",
                    Self.client + """
                        local ticks = 0
                        rl.every(0.01, function() ticks = ticks + 1 end)
                        print(remote:request(1, "a\\0b") == "A\\0B", remote:request(5, "x") == "")
                        print(remote:request(2, "slow"), ticks > 0)
                        ticks = 0
                        print(remote:request(2, "slow", { reply_mode = "quiet" }), ticks)
                        print(remote:request(2, "", { reply_timeout = 0.02 }))
                        print(remote:request(2, "", { reply_timeout = 0.02, reply_mode = "quiet" }))
                        print(remote:request(1, "mine"))
                        print(remote:request(3, ""))
                        print(remote:request(4, ""))
                        print(remote:request(1, ("x"):rep(16 * 1024 * 1024 + 1)))
                        print(remote:request(0, ""))
                        print(remote:request(1, ""))
                        print(remote:send(1, ""))
                        print(remote:is_valid(), (tostring(remote):match "invalid"))
                        os.exit(0)
                        """,
                ], environment: environment)
            #expect(
                run.output == """
                    true\ttrue
                    SLOW\ttrue
                    SLOW\t0
                    nil\treply timed out
                    nil\treply timed out
                    MINE
                    nil\ttransport error: its callback raised an error: boom
                    nil\ttransport error: the callback of a message port must return a string or nil, not 42
                    nil\ttransport error: the message has 16777217 bytes; 16777216 can be sent
                    nil\tbecame invalid
                    nil\tinvalid
                    nil\tinvalid
                    false\tinvalid

                    """, "\(run.errors)")
        }
        #expect(server.status == 0)
        #expect(server.errors.hasPrefix("error: boom\n"), "\(server.errors)")
    }

    @Test("requests of several tasks are sent at once, and a callback that waits delays no other")
    func concurrency() throws {
        let server = try withServer { environment in
            let run = try Binary.run(
                [
                    "-e",
                    Self.client + """
                        local order, tasks = {}, {}
                        for i, id in ipairs { 2, 1, 2, 1 } do
                          tasks[i] = rl.task(function()
                            assert(remote:request(id, "x" .. i) == "X" .. i)
                            order[#order + 1] = i
                          end)
                        end
                        for _, task in ipairs(tasks) do task:await() end
                        print(table.concat(order, " "))
                        """ + Self.quit,
                ], environment: environment)
            #expect(run.output == "2 4 1 3\n", "\(run.errors)")
        }
        #expect(server.status == 0 && server.errors.isEmpty, "\(server.errors)")
    }

    @Test("misuse raises an error with the call, the argument and the remedy")
    func misuse() throws {
        let calls: [(String, String)] = [
            ("rl.message_port()", "rl.message_port: an options table is expected, got nothing"),
            ("rl.message_port { }", "rl.message_port: field 'callback' is missing (a function)"),
            ("rl.message_port { calback = print }", "unknown field 'calback' (did you mean 'callback'?)"),
            ("rl.message_port { callback = print, name = 1 }", "field 'name' must be a string, got 1"),
            ("rl.remote_port(7)", "rl.remote_port: argument #1 must be a string, got 7"),
            ("remote.request()", "remote_port:request: a remote_port is expected as self, got nothing"),
            ("remote:request('x', '')", "remote_port:request: argument #1 must be an integer from -2147483648"),
            ("remote:request(1 << 31, '')", "argument #1 must be an integer from -2147483648 to 2147483647"),
            ("remote:request(1)", "remote_port:request: argument #2 must be a string, got nothing"),
            ("remote:request(1, {})", "remote_port:request: argument #2 must be a string, got a table"),
            ("remote:request(1, '', 1)", "remote_port:request: an options table is expected, got 1"),
            (
                "remote:request(1, '', { reply_timeout = 0/0 })",
                "'reply_timeout' must be a number of seconds, 0 or more"
            ),
            ("remote:request(1, '', { send_timeout = -1 })", "'send_timeout' must be a number of seconds, 0 or more"),
            ("remote:request(1, '', { reply_mode = 'common' })", "field 'reply_mode' must be the name of one mode"),
            ("remote:request(1, '', { timeout = 1 })", "unknown field 'timeout'"),
            ("remote:send(1, nil)", "remote_port:send: argument #2 must be a string, got nothing"),
            ("remote:send(1, '', { timeout = 'x' })", "remote_port:send: field 'timeout' must be a number of seconds"),
            ("remote:flush('x')", "remote_port:flush: argument #1 must be a number of seconds, 0 or more"),
            (
                "coroutine.wrap(function() remote:request(2, '') end)()",
                "remote_port:request: cannot wait inside a coroutine"
            ),
            ("server:set_name()", "message_port:set_name: argument #1 must be a string, got nothing"),
            ("rl.thread(print, server)", "cannot send"),
        ]
        let server = try withServer { environment in
            for (call, message) in calls {
                let script =
                    Self.client
                    + "local server = rl.message_port { callback = print } "
                    + "print(select(2, pcall(function() \(call) end)))"
                let run = try Binary.run(["-e", script], environment: environment)
                #expect(run.output.contains(message), "\(call): \(run.output)\(run.errors)")
            }
            _ = try Binary.run(["-e", Self.client + Self.quit], environment: environment)
        }
        #expect(server.status == 0 && server.errors.isEmpty, "\(server.errors)")
    }

    @Test("a refusal of the system is a name, a sentence and a code")
    func refusals() throws {
        let server = try withServer { environment in
            let script =
                Self.client + """
                    local message, code
                    local function show(_, message, code) print(code, message) end
                    show(rl.message_port { name = "server", callback = print })
                    show(rl.remote_port "nobody")
                    show(rl.remote_port "a/b")
                    show(rl.message_port { name = ".x", callback = print })
                    show(rl.remote_port "\\xff")
                    local own = rl.message_port { name = "own", callback = print }
                    print(own:name(), own:set_name "mine", own:name())
                    show(own:set_name "server")
                    print(own:name())
                    """ + Self.quit
            // Runs with 0, 1, 2 … free descriptors: each step that needs one reports its lack.
            let few = try Binary.shell(
                """
                ulimit -n 30; exec $RLHOST -e '
                  local rl = require "runloop"
                  rl.current():add(rl.source {})
                  local files, file = {}, io.open "/dev/null"
                  while file do
                    files[#files + 1] = file
                    file = io.open "/dev/null"
                  end
                  for _ = 1, 5 do
                    print((select(3, rl.remote_port "server")), (select(3, rl.message_port { name = "y", \
                callback = print })))
                    table.remove(files):close()
                  end
                  os.exit(0)'
                """, environment: environment)
            #expect(
                few.output == "EMFILE\tEMFILE\nEMFILE\tEMFILE\nEMFILE\tEMFILE\nnil\tEMFILE\nnil\tnil\n",
                "\(few.output)\(few.errors)")
            let run = try Binary.run(["-e", script], environment: environment)
            let rule = "a name has 1 to 100 bytes, does not begin with \".\" and contains neither \"/\" nor NUL"
            #expect(
                run.output == """
                    EADDRINUSE\tEADDRINUSE: a live process has the name "server"
                    ENOENT\tENOENT: no process has a message port of the name "nobody"
                    EINVAL\tEINVAL: \(rule)
                    EINVAL\tEINVAL: \(rule)
                    EINVAL\tEINVAL: a name must be UTF-8
                    own\ttrue\tmine
                    EADDRINUSE\tEADDRINUSE: a live process has the name "server"
                    mine

                    """, "\(run.errors)")
        }
        #expect(server.status == 0)
    }

    @Test("a directory that is not private is not used, and the message has the reason")
    func privacy() throws {
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let inner = directory + "/rlhost"
            try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: inner)
            let script = "print(require 'runloop'.message_port { name = 'x', callback = print })"
            let open = try Binary.run(["-e", script], environment: ["XDG_RUNTIME_DIR": directory])
            #expect(
                open.output.hasPrefix(
                    "nil\tEACCES: \(inner) must be a directory of user \(getuid()) with mode 0700; it is")
                    && open.output.contains("has mode 0755\tEACCES"), "\(open.output)\(open.errors)")
            try FileManager.default.removeItem(atPath: inner)
            try FileManager.default.createSymbolicLink(atPath: inner, withDestinationPath: directory)
            let link = try Binary.run(["-e", script], environment: ["XDG_RUNTIME_DIR": directory])
            #expect(link.output.hasPrefix("nil\tE"), "\(link.output)\(link.errors)")
            try FileManager.default.removeItem(atPath: inner)
            let look = "\(script) os.execute('stat -c %a:%F \(inner) \(inner)/x')"
            let made = try Binary.shell(
                "umask 0; exec $RLHOST -e \"\(look)\"", environment: ["XDG_RUNTIME_DIR": directory])
            #expect(made.output.hasSuffix("700:directory\n600:socket\n"), "\(made.output)\(made.errors)")
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: inner).isEmpty, "the port's files are left behind")
        }
    }

    @Test("without descriptors the receiver reports that, does not spin, and serves its senders once there are some")
    func descriptors() throws {
        let script = """
            local rl = require "runloop"
            local server = assert(rl.message_port { name = "server", callback = function(port, id)
              if id == 0 then port:invalidate() end
            end })
            rl.current():add(server)
            local files = {}
            while true do
              local file = io.open "/dev/null"
              if not file then break end
              files[#files + 1] = file
            end
            rl.after(0.5, function()
              for i = 1, 5 do files[i]:close() end
              rl.after(0.3, function() print(rl.current():stats().passes < 200) end)
            end)
            print "ready"
            io.flush()
            """
        let server = try withServer(script.replacing("'", with: "\""), limit: "40") { environment in
            let run = try Binary.run(
                ["-e", Self.client + "print(remote:request(1, '')) rl.sleep(0.6)" + Self.quit], environment: environment
            )
            #expect(run.output == "\n", "\(run.errors)")
        }
        #expect(server.output == "ready\ntrue\n", "\(server.output)")
        #expect(
            server.errors.contains("message port \"server\": cannot accept a connection, and tries again: Too many"))
    }

    @Test("no name stays in use after os.exit, or after its process was killed")
    func leftovers() throws {
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let environment = ["XDG_RUNTIME_DIR": directory]
            func names() throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: directory + "/rlhost").sorted()
            }
            let exits = try Binary.run(
                [
                    "-e",
                    """
                    port = rl.message_port { name = 'exits', callback = print }
                    other = rl.thread(function() return require 'runloop'.message_port { name = 'of a thread', \
                    callback = print }:name() end)
                    print(other:join())
                    os.exit(0)
                    """,
                ], environment: environment)
            #expect(exits.output == "true\tof a thread\n" && exits.status == 0, "\(exits)")
            #expect(try names() == [])
            // A living process keeps its names; the end of a forked child removes none of them.
            let alive = try Binary.Process(
                [
                    "-e",
                    "rl.message_port { name = 'alive', callback = print, modes = 'default' } print 'ready' io.flush()",
                ],
                environment: environment)
            #expect(alive.waitForOutput("ready"))
            let killed = (0..<3).map { number in
                "rl.message_port { name = 'killed \(number)', callback = print } print 'ready' io.flush() rl.sleep(60)"
            }
            for script in killed {
                let process = try Binary.Process(["-e", script], environment: environment)
                #expect(process.waitForOutput("ready"))
                process.signal(SIGKILL)
                _ = process.finish()
            }
            #expect(try names().contains("killed 2"))
            let next = try Binary.run(
                [
                    "-e",
                    """
                    local port = assert(rl.message_port { name = 'next', callback = print })
                    assert(rl.message_port { name = 'killed 1', callback = print })
                    assert(rl.remote_port 'alive')
                    """,
                ], environment: environment)
            #expect(next.status == 0, "\(next)")
            #expect(try names() == [".alive.lock", "alive"])
            alive.signal(SIGTERM)
            _ = alive.finish()
            #expect(try names() == [])
        }
    }

    @Test("many processes that remove stale names and take names at once get all free names")
    func clearing() throws {
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let environment = ["XDG_RUNTIME_DIR": directory]
            for round in 0..<3 {
                let processes = try (0..<8).map { number in
                    try Binary.Process(
                        [
                            "-e",
                            """
                            assert(rl.message_port { name = 'n\((number + round) % 8)', callback = print })
                            print(#arg)
                            io.flush()
                            require 'runloop'.sleep(0.2)
                            os.execute('kill -9 ' .. io.open '/proc/self/stat':read 'n')
                            """,
                        ], environment: environment)
                }
                for process in processes {
                    let result = process.finish(timeout: 30)
                    #expect(result.errors == "" && result.signal == SIGKILL, "\(result)")
                }
            }
        }
    }

    @Test(
        "a remote port that was invalidated keeps no buffers until it is collected",
        .disabled(if: Binary.isUnderAddressSanitizer))
    func buffers() throws {
        _ = try withServer { environment in
            let script = """
                local function resident() return tonumber(io.open "/proc/self/status":read "a":match \
                "VmRSS:%s*(%d+)") end
                local function once()
                  local port = assert(rl.remote_port "server")
                  assert(port:request(1, "a") == "A")
                  port:invalidate()
                  return port
                end
                local kept = {}
                for i = 1, 20 do kept[i] = once() end
                local before = resident()
                for i = 21, 140 do kept[i] = once() end
                print(resident() - before < 2400 or resident() - before)
                rl.remote_port "server":request(0, "")
                """
            let result = try Binary.run(["-e", script], environment: environment)
            #expect(result.output == "true\n", "\(result)")
        }
    }
}
