import Foundation
import TestSupport
import Testing

/// Attacks on a message port by a foreign program, which is written in Python.
@Suite("Frames of message ports", .timed)
struct MessageFrameTests {
    /// Answers with id and data; ends at message 0. Message 9 is answered after a pause, so that Python has to wait.
    private static let server = """
        local rl = require "runloop"
        local port = assert(rl.message_port { name = "server", callback = function(port, id, data)
          if id == 0 then port:invalidate() return end
          if id == 9 then rl.sleep(0.05) end
          return id .. " " .. data
        end })
        rl.current():add(port)
        print "ready"
        io.flush()
        """

    /// A well-behaved client stays connected, and sends a request after each attack.
    private static let preamble = """
        import os, sys, socket, struct, time
        sys.path.insert(0, sys.argv[1] + "/docs/examples")
        sys.dont_write_bytecode = True
        from message_client import *
        good = RemotePort("server")
        def ask(): return good.request(5, b"good")
        assert ask() == b"5 good"
        bad = RemotePort("server")
        def send(bytes): bad.socket.sendall(bytes)
        def head(kind=1, length=0, conversation=1, magic=b"RL", version=1, zero=0):
            return HEAD.pack(magic, version, kind, length, conversation, 7, zero)
        def bye():
            kind, conversation, id, data = bad.receive()
            assert (kind, conversation, id) == (BYE, 0, 0), (kind, conversation, id, data)
            try: assert bad.socket.recv(1) == b"", "not closed"
            except ConnectionResetError: pass
            return data.decode()

        """

    private func talk(_ script: String) throws -> (client: Binary.Result, server: Binary.Result) {
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let environment = ["XDG_RUNTIME_DIR": directory]
            let server = try Binary.Process(["-e", Self.server], environment: environment)
            #expect(server.waitForOutput("ready"), "\(server.errorText)")
            let path = directory + "/talk.py"
            try Data((Self.preamble + script + "\nassert ask() == b'5 good'\ngood.start(REQUEST, 0, b'')\n").utf8)
                .write(to: URL(filePath: path))
            let client = try Binary.shell("exec python3 \(path) \(Binary.repository)", environment: environment)
            #expect(client.status == 0, "\(client.errors)")
            if client.status != 0 { server.signal(SIGTERM) }
            return (client, server.finish(timeout: 20))
        }
    }

    private static let broken: [(name: String, script: String, reason: String)] = [
        ("magic", "send(head(magic=b'XY'))", "a frame does not begin with \"RL\""),
        ("version", "send(head(version=2))", "message format 2; this rlhost reads 1"),
        ("kind", "send(head(kind=77))", "there is no frame of kind 77"),
        ("reserved", "send(head(zero=1))", "the last four bytes of a head are not 0"),
        (
            "oversized", "send(head(length=0xFFFFFFFF))",
            "4294967295 bytes of data are announced, and 16777216 are allowed"
        ),
        (
            "one byte more", "send(head(length=LONGEST + 1))",
            "16777217 bytes of data are announced, and 16777216 are allowed"
        ),
        ("answer", "send(head(kind=REPLY))", "only a port sends frames of kind 3"),
        (
            "replayed", "send(head())\nassert bad.receive()[3] == b'7 '\nsend(head())",
            "conversation 1 does not follow 1"
        ),
        ("left out", "send(head(conversation=2))", "conversation 2 does not follow 0"),
        (
            "too many", "send(b''.join(HEAD.pack(b'RL', 1, 1, 0, i + 1, 9, 0) for i in range(257)))",
            "more than 256 of its messages"
        ),
    ]

    @Test(
        "a peer that breaks a rule gets the reason and is disconnected; others are not affected",
        arguments: broken.indices)
    func offence(index: Int) throws {
        let (name, script, reason) = Self.broken[index]
        let (client, server) = try talk(script + "\nprint(bye())")
        #expect(client.output.hasPrefix(reason), "\(name): \(client.output)")
        #expect(server.status == 0)
        #expect(
            server.errors.contains(#/^rlhost: message port "server": closed the connection of process \d+: /#)
                && server.errors.contains(reason) && server.errors.split(separator: "\n").count == 1,
            "\(name): \(server.errors)")
    }

    @Test("if many peers break rules, the first is printed, and the others as a count") func manyOffences() throws {
        let (_, server) = try talk(
            """
            for _ in range(50):
                bad = RemotePort("server")
                send(head(kind=77))
                bye()
            """)
        #expect(server.status == 0)
        let lines = server.errors.split(separator: "\n")
        #expect(lines.count == 2 && lines[0].contains("there is no frame of kind 77"), "\(server.errors)")
        #expect(lines.last == "rlhost: message port \"server\": 49 more warnings of this kind in the last minute")
    }

    @Test("a peer that leaves in the middle of a frame is named; one that leaves between two frames is not")
    func truncated() throws {
        let cut = try talk("send(head(length=100) + b'only this')\nbad.socket.close()\ntime.sleep(0.05)")
        #expect(cut.server.errors.contains("it ended 33 bytes into a frame"), "\(cut.server.errors)")
        let clean = try talk("bad.request(1)\nbad.socket.close()\ntime.sleep(0.05)")
        #expect(clean.server.errors.isEmpty, "\(clean.server.errors)")
    }

    @Test("frames may come in pieces of any size, and many at a time")
    func pieces() throws {
        let run = try talk(
            """
            frame = HEAD.pack(b"RL", 1, REQUEST, 3, 1, -2, 0) + b"a\\0b"
            for byte in frame:
                send(bytes([byte]))
                time.sleep(0.001)
            assert bad.receive() == (REPLY, 1, -2, b"-2 a\\0b")
            send(b"".join(HEAD.pack(b"RL", 1, SEND if i % 2 else REQUEST, 1, i, i + 90, 0) + b"x" for i in range(2, \
            202)))
            seen = [bad.receive() for i in range(2, 202)]
            assert seen == [(DONE, i, i + 90, b"") if i % 2 else (REPLY, i, i + 90, b"%d x" % (i + 90)) \
            for i in range(2, 202)], seen
            bad.conversation = 201
            whole = bytes(LONGEST)
            assert bad.request(1, whole[:-2]) == b"1 " + whole[:-2]
            """)
        #expect(run.server.status == 0 && run.server.errors.isEmpty, "\(run.server.errors)")
    }

    @Test("a peer that announces 16 MB and sends nothing gets no memory for it")
    func announced() throws {
        let run = try talk(
            """
            pid = struct.unpack("iII", bad.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            def memory():
                return [int(l.split()[1]) for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")][0]
            before = memory()
            liars = [RemotePort("server") for _ in range(20)]
            for liar in liars: liar.socket.sendall(head(length=LONGEST))
            assert ask() == b"5 good"
            print(memory() - before < 20 * 1024)
            for liar in liars: liar.socket.close()
            """)
        #expect(run.client.output == "True\n")
        #expect(run.server.status == 0)
    }

    @Test("a peer that does not read its answers stops being served, and the memory for it stays bounded")
    func deaf() throws {
        let run = try talk(
            """
            pid = struct.unpack("iII", bad.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            def memory():
                return [int(l.split()[1]) for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")][0]
            bad.socket.setblocking(False)
            frames = b"".join(HEAD.pack(b"RL", 1, REQUEST, 1 << 20, i, 1, 0) + bytes(1 << 20) for i in range(1, 201))
            sent, last = 0, time.time()
            while sent < len(frames) and time.time() - last < 0.5:
                try:
                    sent += bad.socket.send(frames[sent:sent + (1 << 18)])
                    last = time.time()
                except BlockingIOError: time.sleep(0.01)
            assert sent < len(frames), "it took all 200 MB"
            assert ask() == b"5 good"
            print(memory() < 150 * 1024)
            bad.socket.close()
            """)
        #expect(run.client.output == "True\n")
        #expect(run.server.status == 0)
    }

    @Test("a port that breaks a rule is disconnected, and every waiting sender gets the reason")
    func brokenPort() throws {
        let script = """
            import os, sys, socket, fcntl
            sys.path.insert(0, sys.argv[1] + "/docs/examples")
            sys.dont_write_bytecode = True
            from message_client import *
            os.mkdir(directory(), 0o700)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(directory() + "/server")
            listener.listen()
            print("ready", flush=True)
            for answer in [
                HEAD.pack(b"RL", 1, REPLY, 0, 1, 1, 0) * 2, HEAD.pack(b"RL", 1, DONE, 0, 1, 1, 0),
                HEAD.pack(b"RL", 1, REPLY, 0, 5, 1, 0), b"HTTP/1.1 200 OK, and so on", HEAD.pack(b"RL", 1, BYE, 5, 0, \
            0, 0) + b"no\\33!!",
                HEAD.pack(b"RL", 1, REPLY, 100, 1, 1, 0), b"",
            ]:
                connection = listener.accept()[0]
                connection.recv(24)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(100): pass
            """
        try Binary.withDirectory { directory in
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let environment = ["XDG_RUNTIME_DIR": directory]
            let path = directory + "/port.py"
            try Data(script.utf8).write(to: URL(filePath: path))
            let port = try Binary.Process(
                [Array("-c".utf8), Array("exec python3 \(path) \(Binary.repository)".utf8)],
                environment: [Array("XDG_RUNTIME_DIR=\(directory)".utf8)], program: "/bin/sh", name: "sh")
            #expect(port.waitForOutput("ready"), "\(port.errorText)")
            let client = try Binary.run(
                [
                    "-e",
                    """
                    local rl = require "runloop"
                    for i = 1, 7 do
                      local remote = assert(rl.remote_port "server")
                      print(remote:request(1, ""))
                      if i == 1 then print(remote:is_valid()) end
                      remote:invalidate()
                    end
                    """,
                ], environment: environment)
            #expect(
                client.output == """

                    false
                    nil\ttransport error: conversation 1 is answered by a frame of the wrong kind
                    nil\ttransport error: conversation 5 is not open: an answer is repeated, or made up
                    nil\ttransport error: a frame does not begin with "RL"
                    nil\ttransport error: no\\x1b!!
                    nil\ttransport error: it ended 24 bytes into a frame
                    nil\tbecame invalid

                    """, "\(client.errors)")
            _ = port.finish(timeout: 10)
        }
    }

    @Test("many messages and kills: each message is handled, or its failure is reported", .soak(seconds: 60))
    func storm() throws {
        let run = try Binary.shell(
            "exec \(Binary.repository)/scripts/soak messages \(Soak.length) \(Soak.seed)", timeout: 120)
        #expect(run.status == 0, "\(run.errors)")
        #expect(
            run.output.contains("messages in order, none lost, none doubled") && run.output.contains(" kills: "))
    }
}
