import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Finding a process to attach to", .timed)
struct AttachNameTests {
    @Test("without arguments it lists processes; a name finds one, or lists several")
    func names() throws {
        let folder = try AttachedProcess.makeFolder()
        let environment = ["XDG_RUNTIME_DIR": folder.url.path]
        let web = try AttachedProcess(["--attach=web"], folder: folder)
        let worker = try AttachedProcess(
            [], "print((require 'runloop').attach 'worker') \(AttachedProcess.script)", folder: folder)
        let other = try AttachedProcess(["--attach=worker"], folder: folder)
        let plain = try AttachedProcess(
            [], "print((require 'runloop').attach()) \(AttachedProcess.script)", folder: folder)
        #expect(worker.process.outputText == "worker\nready\n")
        #expect(plain.process.outputText == "\(plain.pid)\nready\n")
        let list = try Binary.run(["attach"], environment: environment)
        let lines = list.output.split(separator: "\n")
        #expect(list.status == 0 && lines.count >= 5, "\(list)")  // other tests' may be there
        #expect(lines.first?.contains(/^ *PID  NAME +COMMAND$/) == true)
        for (target, name) in [(web, "web"), (worker, "worker"), (other, "worker"), (plain, "-")] {
            #expect(lines.contains { $0.contains("\(target.pid)  \(name) ") && $0.contains("target.lua") })
        }
        #expect(try Binary.run(["attach", "web", "-e", "42"], environment: environment).output == "42\n")
        let several = try Binary.run(["attach", "worker", "-e", "42"], environment: environment)
        #expect(several.status == 69)
        for target in [worker, other] { #expect(several.errors.contains("\(target.pid)"), "\(several)") }
        let unknown = try Binary.run(["attach", "nobody"], environment: environment)
        #expect(
            unknown.status == 69 && unknown.errors.contains("'nobody' (there are: ") && unknown.errors.contains("web"),
            "\(unknown)")
        // A killed process leaves its socket, which is not listed. Any `attach` removes the socket, even one that
        // another test runs.
        #expect(web.files.contains("rlhost-attach.\(web.pid).web"))
        web.process.signal(SIGKILL)
        _ = web.process.finish()
        #expect(try Binary.run(["attach", "web"], environment: environment).status == 69)
        #expect(!web.files.contains { $0.contains("\(web.pid)") })
    }

    @Test("a process without the session's directory is found as well")
    func elsewhere() throws {
        let folder = try AttachedProcess.makeFolder()
        let process = try Binary.Process(["--attach", "-e", AttachedProcess.script])
        #expect(process.waitForOutput("ready"))
        let run = try Binary.run(
            ["attach", "\(process.pid)", "-e", "7"], environment: ["XDG_RUNTIME_DIR": folder.url.path])
        #expect(run.output == "7\n", "\(run)")
        process.signal(SIGTERM)
        #expect(process.finish().status == 143)
    }

    @Test("HOST:PID is a process of another machine: ssh runs the command there, with quoted words")
    func machines() throws {
        try Binary.withDirectory { directory in
            // A file that this process wrote would be busy while another test starts a program.
            let script = "'#!/bin/sh' 'for word; do echo \"[$word]\"; done' 'exit 7'"
            _ = try Binary.shell("printf '%s\\n' \(script) > \(directory)/ssh; chmod 755 \(directory)/ssh")
            func attach(_ words: String, path: String = directory) throws -> Binary.Result {
                try Binary.shell("PATH=\(path):/usr/bin:/bin; export PATH; exec \"$RLHOST\" attach \(words)")
            }
            let run = try attach("me@web-1.example:812 -e \"print 'a'\" --follow")
            #expect(
                run.output == "[me@web-1.example]\n[rlhost attach 812 '-e' 'print '\\''a'\\''' '--follow']\n", "\(run)")
            #expect(run.status == 7, "\(run)")
            let plain = try attach("web1:812")
            #expect(plain.output == "[web1]\n[rlhost attach 812]\n", "\(plain)")
            // ssh would take the first one for an option, and the remote shell the others for commands.
            for text in ["-oProxyCommand=x:1", "'a;b:1'", "'a:1;b'", ":1", "a:"] {
                let refused = try attach(text)
                #expect(refused.output == "" && [64, 69].contains(refused.status), "\(text): \(refused)")
            }
            let none = try Binary.shell("PATH=/nowhere; export PATH; exec \"$RLHOST\" attach web1:812")
            #expect(none.status == 69, "\(none)")
            #expect(
                none.errors.hasSuffix("attach: web1: ssh cannot be started: No such file or directory\n"), "\(none)")
        }
    }

    @Test("the error names the obstacle: no process, none that allows it, a stopped one")
    func refusals() throws {
        let folder = try AttachedProcess.makeFolder()
        let environment = ["XDG_RUNTIME_DIR": folder.url.path]
        let nobody = try Binary.run(["attach", "4194305"], environment: environment)
        #expect(nobody.status == 69 && nobody.errors == "rlhost: attach: there is no process 4194305\n")
        let huge = try Binary.run(["attach", "99999999999"], environment: environment)
        #expect(huge.status == 69 && huge.errors.contains("99999999999"), "\(huge)")
        let plain = try Binary.Process(["--no-attach", "-e", AttachedProcess.script])
        #expect(plain.waitForOutput("ready"))
        let refused = try Binary.run(["attach", "\(plain.pid)"], environment: environment)
        #expect(refused.status == 69)
        #expect(
            refused.errors
                == "rlhost: attach: process \(plain.pid) (rlhost) cannot be attached to: it is not an rlhost, "
                + "or does not allow it (--no-attach, RLHOST_ATTACH=off, rl.attach(false))\n")
        plain.signal(SIGKILL)
        let target = try AttachedProcess(folder: folder)
        target.process.signal(SIGSTOP)
        let stopped = try target.attach("-e", "1")
        #expect(stopped.status == 69 && stopped.errors.contains("it is stopped"), "\(stopped)")
        target.process.signal(SIGCONT)
        #expect(try target.value("1") == "1")
    }

    @Test(
        "each wrong argument has its own message",
        arguments: [
            (["attach", "-e", "1"], "-e needs a process"), (["attach", "1", "-e"], "'-e' needs code"),
            (["attach", "--pid", "1"], "unknown option '--pid'"), (["attach", "1", "2"], "one process at a time"),
            (["--attach=", "-e", "1"], "1 to 60 bytes"), (["--attach=12", "-e", "1"], "must not be a number"),
            (["--attach=a b", "-e", "1"], "blanks"), (["--attach=a/b", "-e", "1"], "'/'"),
            (["--attach=-x", "-e", "1"], "'-'"), (["--atach", "-e", "1"], "unknown option '--atach'"),
            (["--attach", "test"], "rl.attach()"),
        ])
    func misuse(arguments: [String], message: String) throws {
        let run = try Binary.run(arguments)
        #expect(run.status == 64 && run.errors.contains(message) && run.output.isEmpty, "\(run)")
    }

    @Test("rl.attach names a wrong argument, and false undoes it")
    func calls() throws {
        let run = try Binary.run([
            "-e",
            """
            for _, name in ipairs { 1, true, {}, "", "12", "a/b", "a b", ("x"):rep(61), "\\xff" } do
              print((select(2, pcall(rl.attach, name)):gsub("^.-rl", "rl")))
            end
            print(rl.attach "one", rl.attach "two", rl.attach "two", rl.attach(false), rl.attach(false))
            rl.thread(function() print(pcall(require "runloop".attach)) end):join()
            """,
        ])
        #expect(
            run.output == """
                rl.attach: argument #1 must be a name, nothing, or false, got 1
                rl.attach: argument #1 must be a name, nothing, or false, got true
                rl.attach: argument #1 must be a name, nothing, or false, got a table
                rl.attach: argument #1 must have 1 to 60 bytes
                rl.attach: argument #1 must not be a number: numbers name processes
                rl.attach: argument #1 must not begin with '-' or contain blanks, control characters or '/'
                rl.attach: argument #1 must not begin with '-' or contain blanks, control characters or '/'
                rl.attach: argument #1 must have 1 to 60 bytes
                rl.attach: argument #1 must be UTF-8
                one\ttwo\ttwo\tnil\tnil
                false\t(command line):5: rl.attach: only the main thread's loop can be attached to: call it there

                """, "\(run)")
        let target = try AttachedProcess()
        let own = try target.attach("-e", "rl.attach(false)")
        #expect(own.status == 1 && own.errors.contains("rl.attach: "), "\(own)")
        #expect(try target.value("rl.attach()") == "\(target.pid)")
    }

    @Test("a test that calls rl.attach must undo it, and can be attached to meanwhile")
    func underTest() throws {
        try Binary.withDirectory { directory in
            let text = """
                local rl, t = require "runloop", require "runloop.test"
                t.it("takes it back", function() t.equal(rl.attach "one", "one") t.equal(rl.attach(false), nil) end)
                t.it("leaves it", function() rl.attach() end)
                t.it("is attached to", { real_time = true }, function()
                  value = 17
                  local name = rl.attach()
                  local client <close> = t.spawn { t.rlhost, "attach", name, "-e", "value" }
                  client:wait_for "17"
                  t.equal(client:wait(), 0)
                  rl.attach(false)
                end)
                """
            try Data(text.utf8).write(to: URL(filePath: directory + "/attach_test.lua"))
            let run = try Binary.run(["test", "attach_test.lua"], directory: directory)
            #expect(run.output.contains("ok    takes it back") && run.output.contains("ok    is attached to"), "\(run)")
            #expect(run.output.contains("FAIL  leaves it") && run.output.contains("rlhost-attach"), "\(run)")
        }
    }

    @Test(
        "a process and a client of different users refuse each other, whatever the files allow",
        .enabled(if: getuid() == 0))
    func otherUsers() throws {
        let setpriv = "/usr/bin/setpriv"
        try #require(FileManager.default.isExecutableFile(atPath: setpriv))
        let folder = try AttachedProcess.makeFolder()
        chown(folder.url.path, 65534, 65534)
        // The program is in a directory that only root may enter. Another process copies the file: if this one did, a
        // child that another test starts meanwhile would inherit the descriptor that is open for writing, and the file
        // could not be run.
        let copy = folder.url.path + "/program"
        let copied = try Binary.run([Binary.path, copy], program: "/bin/cp", name: "cp")
        try #require(copied.status == 0, "\(copied)")
        let target = try Binary.Process(
            ["--reuid=65534", "--regid=65534", "--clear-groups", copy, "--attach", "-e", AttachedProcess.script].map {
                Array($0.utf8)
            }, environment: [Array("XDG_RUNTIME_DIR=\(folder.url.path)".utf8)], program: setpriv, name: "setpriv")
        try #require(target.waitForOutput("ready"), "\(target.errorText)")
        let run = try Binary.run(["attach", "\(target.pid)"], environment: ["XDG_RUNTIME_DIR": folder.url.path])
        #expect(run.status == 69 && run.errors.contains("belongs to user nobody; only that user"), "\(run)")
        // Root can connect to any socket. The process itself must refuse the connection.
        let connection = try Binary.run(
            [
                "-c",
                """
                import socket, struct
                s = socket.socket(socket.AF_UNIX)
                s.connect("\(folder.url.path)/rlhost/rlhost-attach.\(target.pid)")
                data = b"1\\n"
                s.settimeout(10)
                try:
                    s.sendall(b"RL\\1\\1" + struct.pack(">IQiI", len(data), 1, 1, 0) + data)
                    print(s.recv(100))
                except ConnectionError: print(b"")
                """,
            ], program: "/usr/bin/python3", name: "python3")
        #expect(connection.output == "b''\n", "\(connection)")
        #expect(target.waitForErrors("refused a connection of another user's process"))
        target.signal(SIGKILL)
    }
}

/// A process in a PID namespace of its own, as in a container, has two numbers.
@Suite("Attach through PID namespaces", .timed, .enabled(if: Namespaces.areAllowed))
struct AttachNamespaceTests {
    @Test("a process is found by its outer number, with an open port or without")
    func namespaces() throws {
        for option in ["", "--attach=inner"] {
            let run = try Binary.withDirectory { directory in
                try Binary.shell(
                    """
                    export XDG_RUNTIME_DIR=$PWD
                    unshare -fp --mount-proc $RLHOST \(option) -e 'print "ready" io.flush() rl.every(1, print)' >ready & outer=$!
                    until [ -s ready ]; do sleep 0.05; done
                    process=$(pgrep -P $outer)
                    $RLHOST attach $process -e 'require "runloop.process".id()'
                    $RLHOST attach | grep -c "^ *$process "
                    $RLHOST trace $process -o moments.json >/dev/null; echo $?
                    kill -KILL $process
                    """, directory: directory)
            }
            #expect(run.output == "1\n1\n0\n", "\(run)")
        }
    }
}

private enum Namespaces {
    static let areAllowed = (try? Binary.shell("unshare -fp --mount-proc true"))?.status == 0
}
