import Foundation
import TestSupport
import Testing

/// Each way to end a program × each way to write × each fault of a standard stream: a loss of output never leads to
/// status 0, and is always reported.
@Suite("Command line: exit statuses", .timed)
struct StatusTests {
    /// The ways in which programs end, with the status if everything could be written.
    private static let ends: [(code: String, status: Int32)] = [
        ("", 0), ("os.exit(0)", 0), ("os.exit(0, true)", 0), ("os.exit(true)", 0), ("os.exit(7)", 7),
        ("os.exit(7, true)", 7), ("rl.shutdown()", 0), ("rl.stop()", 0), ("error('x', 0)", 1),
        ("rl.after(0, function() os.exit(0) end)", 0), ("rl.after(0, error)", 1),
    ]
    private static let outputWriters = [
        "print(1)", "io.write 'x'", "io.write 'x' io.flush()", "io.stdout:write 'x'",
        "require 'runloop.net'.output():write 'x'",
    ]
    private static let errorWriters = [
        "io.stderr:write 'x'", "require 'runloop.log'.info 'x'", "warn '@on' warn 'x'",
        "require 'runloop.net'.errors():write 'x'",
    ]
    private static let buffers = ["", "full", "line", "no"]

    /// For each fault: the redirection with which a shell starts the program, and the error.
    private static let faults = [
        ("> /dev/full", "ENOSPC: no space left on device"), (">&-", "EBADF: bad file descriptor"),
    ]

    /// Runs all rows of a fault in one shell; returns the status and the standard error of each.
    private func rows(_ codes: [String], redirection: String, stream: Int) throws -> [(status: Int32, errors: String)] {
        try Binary.withDirectory { directory in
            for (number, code) in codes.enumerated() {
                try code.write(toFile: "\(directory)/\(number).lua", atomically: true, encoding: .utf8)
            }
            let script = """
                number=0
                while [ $number -lt \(codes.count) ]; do
                  "$RLHOST" $number.lua \(stream)\(redirection) \(stream == 1 ? "2" : "1")> $number.other
                  echo $? >> statuses
                  number=$((number + 1))
                done
                """
            let run = try Binary.shell(script, directory: directory, timeout: 300)
            #expect(run.status == 0, "\(run)")
            let statuses = try String(contentsOfFile: directory + "/statuses", encoding: .utf8).split(separator: "\n")
            return try statuses.enumerated().map { number, status in
                let other = try String(contentsOfFile: "\(directory)/\(number).other", encoding: .utf8)
                return (Int32(status) ?? -1, other)
            }
        }
    }

    private static func codes(_ writers: [String], _ stream: String) -> [(code: String, status: Int32)] {
        writers.flatMap { writer in
            buffers.flatMap { buffer in
                // Unbuffered ways to write need only one row.
                if buffer != "", writer.contains("runloop") { return [(code: String, status: Int32)]() }
                let begin = "rl = require 'runloop' " + (buffer.isEmpty ? "" : "io.\(stream):setvbuf '\(buffer)' ")
                return ends.map { ("\(begin)\(writer) \($0.code)", $0.status) }
            }
        }
    }

    @Test("standard output that cannot be written gives a status other than 0", arguments: faults)
    func output(_ redirection: String, _ reason: String) throws {
        let table = Self.codes(Self.outputWriters, "stdout")
        for (row, run) in zip(table, try rows(table.map(\.code), redirection: redirection, stream: 1)) {
            #expect(run.status == (row.status == 0 ? 1 : row.status), "\(row) \(run)")
            let lines = run.errors.split(separator: "\n").filter { $0.contains("cannot write") }
            #expect(lines == ["rlhost: cannot write standard output: \(reason)"], "\(row) \(run)")
        }
    }

    @Test("standard error that cannot be written gives a status other than 0", arguments: faults)
    func errors(_ redirection: String, _ reason: String) throws {
        let table = Self.codes(Self.errorWriters, "stderr")
        for (row, run) in zip(table, try rows(table.map(\.code), redirection: redirection, stream: 2)) {
            #expect(run.status == (row.status == 0 ? 1 : row.status), "\(row) \(run)")
        }
    }

    @Test(
        "the program's own texts that cannot be written give a status other than 0",
        arguments: ["--version", "--help", "-v", "-p 1", "-i -e 'print(1)' < /dev/null"])
    func own(_ words: String) throws {
        let run = try Binary.shell("$RLHOST \(words) > /dev/full")
        #expect(run.status == 1, "\(run)")
        let line = "rlhost: cannot write standard output: ENOSPC: no space left on device\n"
        #expect(run.errors.contains(line), "\(run)")
    }

    @Test("a disk that fills up gives a status other than 0")
    func fullDisk() throws {
        try Binary.withDirectory { directory in
            let script = """
                mkdir disk && mount -t tmpfs -o size=64k none disk 2> /dev/null || { echo no rights; exit; }
                for end in "" "os.exit(0)" "os.exit(0, true)" "os.exit(5)"; do
                  "$RLHOST" -e "for i = 1, 30000 do print(i) end $end" > disk/file 2> errors; echo $?; cat errors; rm disk/file
                done
                umount disk
                """
            let run = try Binary.shell(script, directory: directory)
            if run.output == "no rights\n" { return print("skipped: a full disk: only root may mount one") }
            let line = "rlhost: cannot write standard output: ENOSPC: no space left on device\n"
            #expect(run.output == [1, 1, 1, 5].map { "\($0)\n\(line)" }.joined(), "\(run)")
        }
    }

    @Test("a pipe without a reader gives status 141, or an error if SIGPIPE is ignored")
    func closedPipe() throws {
        for end in ["", "os.exit(0)", "os.exit(0, true)"] {
            for write in ["print(1)", "io.write(1)", "require 'runloop.net'.output():write 'x'"] {
                // The reader has closed its end before anything is written.
                let code = "\(write) \(end)"
                let quiet = try Binary.shell(
                    "{ { sleep 0.2; $RLHOST -e \"\(code)\"; echo $? >&2; } | :; }", timeout: 20)
                #expect(quiet.errors == "141\n", "\(code) \(quiet)")
                // If SIGPIPE is ignored, the failed write is an error like any other.
                let ignored = try Binary.shell(
                    "trap '' PIPE; { { sleep 0.2; $RLHOST -e \"\(code)\"; echo $? >&2; } | :; }", timeout: 20)
                #expect(
                    ignored.errors == "rlhost: cannot write standard output: EPIPE: broken pipe\n1\n",
                    "\(code) \(ignored)")
            }
        }
    }

    @Test(
        "a non-blocking standard stream loses nothing",
        arguments: [
            (1, "print(i)"), (1, "io.write(i, '\\n')"), (2, "io.stderr:write(i, '\\n')"),
            (1, "io.stdout:setvbuf 'no' io.write(i, '\\n')"), (1, "require 'runloop.net'.output():write(i .. '\\n')"),
        ])
    func nonBlocking(_ stream: Int, _ write: String) throws {
        try Binary.withDirectory { directory in
            let script = """
                import fcntl, os, subprocess, sys, time
                stream, rlhost = int(sys.argv[1]), sys.argv[2]
                reading, writing = os.pipe()
                fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
                outputs = {"stdout": writing} if stream == 1 else {"stderr": writing}
                child = subprocess.Popen([rlhost, "-e", sys.argv[3]], **outputs)
                os.close(writing)
                time.sleep(0.3)
                got = b""
                while piece := os.read(reading, 65536): got += piece
                print(child.wait(), got == b"".join(b"%d\\n" % i for i in range(1, 50001)))
                """
            try script.write(toFile: directory + "/run.py", atomically: true, encoding: .utf8)
            let code = "for i = 1, 50000 do \(write) end"
            let run = try Binary.run(
                ["run.py", "\(stream)", Binary.path, code], directory: directory, program: "/usr/bin/python3",
                name: "python3")
            #expect(run.output == "0 True\n", "\(run)")
        }
    }

    @Test("a wait for room in a standard stream can be interrupted", arguments: [SIGINT, SIGTERM])
    func interruptedWait(_ signal: Int32) throws {
        let script = """
            import fcntl, os, subprocess, sys, time
            reading, writing = os.pipe()
            fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
            child = subprocess.Popen([sys.argv[1], "-e", "while true do print('x') end"], stdout=writing, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            child.send_signal(int(sys.argv[2]))
            print(child.wait(timeout=20))
            """
        let run = try Binary.run(
            ["-c", script, Binary.path, "\(signal)"], program: "/usr/bin/python3", name: "python3")
        #expect(run.output == (signal == SIGINT ? "1\n" : "-15\n"), "\(run)")
    }

    // MARK: Inherited signal settings

    /// Runs a script with signals ignored or blocked.
    private func run(_ code: String, ignoring: String = "", blocking: String = "") throws -> Binary.Result {
        let script = """
            import os, signal, sys
            for number in [\(ignoring)]: signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [\(blocking)])
            os.execv(sys.argv[1], ["rlhost", "-e", sys.argv[2]])
            """
        return try Binary.run(["-c", script, Binary.path, code], program: "/usr/bin/python3", name: "python3")
    }

    @Test(
        "SIGCHLD that the parent ignores or blocks does not falsify statuses",
        arguments: [("17", ""), ("", "17"), ("17", "17")])
    func childSignal(_ ignoring: String, _ blocking: String) throws {
        let code = """
            local process = require 'runloop.process'
            print(process.run { 'sh', '-c', 'exit 4' }.code, process.run { 'true' }.code, select(3, os.execute 'exit 5'))
            """
        #expect(try run(code, ignoring: ignoring, blocking: blocking).output == "4\t0\t5\n")
    }

    @Test("signals that the parent blocks take effect", arguments: [SIGTERM, SIGINT, SIGHUP])
    func blocked(_ signal: Int32) throws {
        // The signal comes only after os.execute has returned, since os.execute ignores SIGINT while it waits.
        let code = "os.execute('(sleep 0.2; kill -\(signal) ' .. require 'runloop.process'.id() .. ') &') "
        let result = try run(code + "require 'runloop'.sleep(20)", blocking: "1, 2, 3, 15")
        #expect(result.status == 128 + signal && result.seconds < 10, "\(result)")
    }

    @Test("a signal that the parent ignores stays ignored")
    func ignored() throws {
        let code = "os.execute('kill -1 ' .. require 'runloop.process'.id()) require 'runloop'.sleep(0.05) print 'here'"
        #expect(try run(code, ignoring: "1").output == "here\n")
    }

    @Test("variables that would make a setuid program run other code are removed")
    func setuid() throws {
        guard getuid() == 0 else { return print("skipped: a setuid program: only root can make one") }
        try Binary.withDirectory { directory in
            // The loader treats a setuid program as secure: it never searches the program's own directory for
            // libraries.
            let run = try Binary.shell(
                """
                cp "$RLHOST" rlhost && chown 65534 rlhost && chmod 4755 rlhost && chmod 755 .
                export LUA_INIT='print "init"' LUA_PATH_5_4='/evil/?.lua' LUA_CPATH=/evil/?.so RLHOST_ATTACH=off HOME=/
                ./rlhost -e 'print(package.path:find "evil", package.cpath:find "evil", os.getenv "RLHOST_ATTACH", os.getenv "HOME")'
                """, directory: directory)
            #expect(run.output == "nil\tnil\tnil\t/\n", "\(run)")
        }
    }

    // MARK: Programs

    @Test("without pidfd_open the error names the kernel, and nothing is started")
    func noPidfd() throws {
        try Binary.withDirectory { directory in
            for name in ["ENOSYS", "EPERM"] {
                let code = "print(require 'runloop.process'.run { 'touch', 'made' })"
                let run = try Binary.run(
                    ["-f", "-o", "/dev/null", "-e", "inject=pidfd_open:error=\(name)", Binary.path, "-e", code],
                    directory: directory, program: "/usr/bin/strace", name: "strace")
                if run.errors.contains("ptrace") { return print("skipped: pidfd_open: nobody may trace here") }
                let text = "nil\tprograms need Linux 5.3 or later: pidfd_open: \(name)\t\(name)\n"
                #expect(run.output == text, "\(run)")
            }
            #expect(!FileManager.default.fileExists(atPath: directory + "/made"))
        }
    }

    @Test("SIGHUP ends the programs of a script at whatever moment it comes")
    func earlySignal() throws {
        let script = """
            for i in $(seq 40); do
              "$RLHOST" -e "p = require 'runloop.process' while true do p.start { 'sleep', '98.7654' } end" 2> /dev/null &
              sleep 0.0$((i % 10))
              kill -HUP $!
              wait $!
            done
            sleep 0.2
            ps ax -o args | grep -c '^sleep 98.7654' || true
            """
        let run = try Binary.shell(script, timeout: 120)
        #expect(run.output == "0\n", "\(run)")
    }

    /// Runs `code` as process 1; nil where that is not allowed.
    private func asFirst(_ code: String) throws -> Binary.Result? {
        try Binary.withDirectory { directory in
            try code.write(toFile: directory + "/first.lua", atomically: true, encoding: .utf8)
            let run = try Binary.shell(
                """
                unshare -fp --mount-proc true 2> /dev/null || { echo no rights; exit; }
                unshare -fp --mount-proc "$RLHOST" first.lua
                """, directory: directory)
            guard run.output == "no rights\n" else { return run }
            print("skipped: process 1: unshare is not allowed here")
            return nil
        }
    }

    @Test("process 1 waits for orphans, but not for children of other code")
    func first() throws {
        let code = """
            local rl, process = require 'runloop', require 'runloop.process'
            os.execute "(sleep 0.1; exit 7) & (sleep 0.05) &"
            print(process.id(), process.run { 'sh', '-c', '(sleep 0.05) & exit 4' }.code, select(3, os.execute 'exit 5'))
            local pipe = io.popen 'exit 6'
            rl.sleep(0.1)
            print(select(3, pipe:close()))
            local thread = rl.thread(function()
              return require 'runloop.process'.run { 'sh', '-c', '(sleep 0.05) & exit 9' }.code
            end)
            print(thread:join())
            rl.sleep(0.3)
            local zombies = 0
            for line in io.popen 'ps -e -o stat':lines() do if line:find '^Z' then zombies = zombies + 1 end end
            print(zombies)
            """
        guard let run = try asFirst(code) else { return }
        #expect(run.output == "1\t4\t5\n6\ntrue\t9\n0\n" && run.status == 0, "\(run)")
    }

    @Test(
        "signals end process 1 and its programs",
        arguments: [("TERM", 143), ("INT", 130), ("HUP", 129)] as [(String, Int32)])
    func firstEnds(_ signal: String, _ status: Int32) throws {
        let code = """
            local rl, process = require 'runloop', require 'runloop.process'
            process.start { 'sleep', '20' }
            os.execute 'sh -c "sleep 0.1; kill -\(signal) 1" &'
            rl.sleep(20)
            """
        guard let run = try asFirst(code) else { return }
        #expect(run.status == status && run.seconds < 10, "\(run)")
    }

    // MARK: Texts

    @Test(
        "a zero byte in the text of an error does not cut the text",
        arguments: ["error 'a\\0b'", "rl.after(0, function() error 'a\\0b' end)"])
    func zero(_ code: String) throws {
        let run = try Binary.run(["-e", "rl = require 'runloop' " + code])
        #expect(run.status == 1 && run.errors.contains(": a\\0b\n"), "\(run)")
        let object = try Binary.run(["-e", "error(setmetatable({}, { __tostring = function() return 'a\\0b' end }))"])
        #expect(object.errors == "rlhost: a\\0b\n", "\(object)")
    }

    @Test("the first 65,536 bytes of an error's text are shown")
    func long() throws {
        for code in ["error(('x'):rep(1e8), 0)", "rl.after(0, function() error(('x'):rep(1e8), 0) end)"] {
            let run = try Binary.run(["-e", "rl = require 'runloop' " + code])
            let text = String(repeating: "x", count: 65536) + "... (99934464 more bytes)\n"
            #expect(run.status == 1 && run.errors.hasPrefix("rlhost: \(text)") && run.errors.utf8.count < 70000)
        }
        let exact = try Binary.run(["-e", "error(('x'):rep(65536), 0)"])
        #expect(exact.errors.hasPrefix("rlhost: " + String(repeating: "x", count: 65536) + "\n"))
        let wide = try Binary.run(["-e", "error('x' .. ('\u{e4}'):rep(40000), 0)"])
        let beginning = String(repeating: "\u{e4}", count: 32767)
        #expect(wide.errors.hasPrefix("rlhost: x\(beginning)... (14466 more bytes)\n"))
    }
}
