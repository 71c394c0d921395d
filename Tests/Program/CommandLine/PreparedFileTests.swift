import Foundation
import Glibc
import TestSupport
import Testing

/// Files that another user has put under names to which the program is about to write. LinuxTests tests the function
/// that opens files; these tests show that every part of the program uses it.
@Suite("Files that others have prepared", .timed)
struct PreparedFileTests {
    /// A part of the program that writes a file, which the user has named: "out.html" and so on.
    private static let named: [(name: String, command: String)] = [
        ("out.html", "$RLHOST --trace=out.html -e 'rl.sleep(0.01)'"),
        ("out.pftrace", "$RLHOST --trace=all.pftrace -e 'rl.sleep(0.01)' && $RLHOST trace all.pftrace -o out.pftrace"),
        (
            "out.json",
            "$RLHOST --trace=all.json -e 'rl.sleep(0.01) assert(require([[runloop]]).trace.dump [[out.json]])'"
        ),
        ("out.xml", "$RLHOST test --report=junit=out.xml a_test.lua"),
        ("out.lcov", "$RLHOST test --coverage=out.lcov a_test.lua"),
        ("a_test.snap", "$RLHOST test --update a_test.lua"),
        ("out.txt", "$RLHOST -e 'assert(require([[runloop.fs]]).write([[out.txt]], [[x]]))'"),
        ("out.log", "$RLHOST -e 'assert(require([[runloop.log]]).open { to = [[out.log]] }):error [[x]]'"),
    ]

    private func run(_ command: String, in directory: String) throws -> Binary.Result {
        let body = command.contains("--update") ? "t.snapshot 'new'" : ""
        try "local t = require 'runloop.test' t.it('x', function() \(body) end)".write(
            toFile: directory + "/a_test.lua", atomically: true, encoding: .utf8)
        return try Binary.shell(command, environment: ["HOME": directory], directory: directory)
    }

    @Test("a link of another user is not followed, and the error names it", arguments: named.indices)
    func foreignLink(_ index: Int) throws {
        guard geteuid() == 0 else { return }
        let (name, command) = Self.named[index]
        for exists in [false, true] {
            try Binary.withDirectory { directory in
                if exists { try Data("old".utf8).write(to: URL(fileURLWithPath: directory + "/victim")) }
                #expect(
                    symlink("victim", "\(directory)/\(name)") == 0 && lchown("\(directory)/\(name)", 65534, 65534) == 0)
                let run = try run(command, in: directory)
                let victim = try? String(contentsOfFile: directory + "/victim", encoding: .utf8)
                #expect(victim == (exists ? "old" : nil), "\(name): \(run)")
                #expect(
                    (run.errors + run.output).contains("a symbolic link of user 65534 is not followed"),
                    "\(name): \(run)")
            }
        }
    }

    @Test(
        "the user's own link stays a link, and a hard link to the old file keeps the old content",
        arguments: named.indices)
    func ownLink(_ index: Int) throws {
        let (name, command) = Self.named[index]
        try Binary.withDirectory { directory in
            try Data("old\n".utf8).write(to: URL(fileURLWithPath: directory + "/victim"))
            #expect(link("\(directory)/victim", "\(directory)/other") == 0)
            #expect(symlink("victim", "\(directory)/\(name)") == 0)
            let run = try run(command, in: directory)
            #expect(run.status == 0, "\(name): \(run)")
            var status = stat()
            #expect(lstat("\(directory)/\(name)", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
            let victim = try Data(contentsOf: URL(fileURLWithPath: directory + "/victim"))
            let other = try Data(contentsOf: URL(fileURLWithPath: directory + "/other"))
            #expect(victim != Data("old\n".utf8), "\(name): \(run)")
            // A log is appended to the file that the link names; every other command makes a new file.
            #expect(name == "out.log" ? other == victim : other == Data("old\n".utf8), "\(name): \(run)")
            let rest = try FileManager.default.contentsOfDirectory(atPath: directory)
            #expect(!rest.contains { $0.hasSuffix(".new") }, "\(rest)")
        }
    }

    @Test("a directory is refused", arguments: named.indices) func directory(_ index: Int) throws {
        let (name, command) = Self.named[index]
        // The program has read the file before.
        guard name != "a_test.snap" else { return }
        try Binary.withDirectory { directory in
            #expect(mkdir("\(directory)/\(name)", 0o700) == 0)
            let run = try run(command, in: directory)
            #expect((run.errors + run.output).contains("EISDIR"), "\(name): \(run)")
        }
    }

    @Test("a file that may not be written is refused, and nothing is left", arguments: named.indices)
    func noRights(_ index: Int) throws {
        guard geteuid() == 0, access("/usr/bin/setpriv", X_OK) == 0 else { return }
        let (name, command) = Self.named[index]
        guard !command.contains("all.") else { return }
        try Binary.withDirectory { directory in
            #expect(chmod(directory, 0o755) == 0)
            let command = command.replacingOccurrences(
                of: "$RLHOST", with: "setpriv --reuid=65534 --regid=65534 --clear-groups $RLHOST")
            let run = try run(command, in: directory)
            // The user 65534 may have no right to read the directory of the tests.
            guard !run.errors.contains("Permission denied"), run.status != 127 else { return }
            #expect((run.errors + run.output).contains("EACCES"), "\(name): \(run)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["a_test.lua"], "\(name)")
        }
    }

    @Test("devices, pipes and handles are written to if the user names them")
    func devices() throws {
        try Binary.withDirectory { directory in
            let run = try run(
                """
                $RLHOST test --report=tap=/dev/stdout a_test.lua | grep -c '^ok 1'
                $RLHOST test --report=tap=/proc/self/fd/1 a_test.lua | grep -c '^ok 1'
                $RLHOST test --report=tap=/dev/null a_test.lua > all && echo null
                mkfifo pipe; (grep -c '^ok 1' pipe > read) & $RLHOST test --report=tap=pipe a_test.lua > all; wait; cat read
                $RLHOST test --report=tap=/dev/full a_test.lua > all; echo $?
                """, in: directory)
            #expect(run.output == "1\n1\nnull\n1\n1\n", "\(run)")
            #expect(run.errors.contains("cannot write /dev/full: ENOSPC"), "\(run)")
        }
    }

    @Test(
        "dumps without a given name take the next number, and follow no link",
        arguments: ["link", "pipe", "file", "loop"])
    func dumps(_ obstacle: String) throws {
        try Binary.withDirectory { directory in
            let make =
                ["link": "ln -s elsewhere", "pipe": "mkfifo", "file": "echo old >", "loop": "ln -s loop"][obstacle]
                ?? ""
            let run = try run(
                """
                cat > app.lua <<'EOF'
                local rl = require "runloop"
                rl.after(0.01, function()
                  os.execute("\(make) app-$PPID.html; \(make) moments/app-$PPID-error.html; kill -USR2 $PPID")
                  rl.sleep(0.2)
                  error "no"
                end)
                EOF
                mkdir moments; ln -s loop loop
                $RLHOST --trace-on-error=moments app.lua
                ls -d elsewhere moments/elsewhere; ls app-*-2.html moments/app-*-2.html
                """, in: directory)
            #expect(run.output.contains(/^app-\d+-2.html\nmoments\/app-\d+-error-2.html\n$/), "\(run)")
        }
    }
}
