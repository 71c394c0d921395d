import CLinux
import Glibc
import Linux
import TestSupport
import Testing

@Suite("Linux", .timed)
struct LinuxTests {
    /// A directory for one test, which is removed at the end.
    private func withDirectory(_ body: (String) throws -> Void) throws {
        var template = Array("/tmp/rlhost-linux-XXXXXX".utf8CString)
        let path: UnsafeMutablePointer<CChar>? = mkdtemp(&template)
        let directory = String(cString: try #require(path))
        defer {
            for name in ["b", "a", "link"] { unlink("\(directory)/\(name)") }
            rmdir("\(directory)/inner")
            rmdir(directory)
        }
        try body(directory)
    }

    private func touch(_ path: String) {
        let fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        close(fd)
    }

    @Test("an error has its name, its meaning and its subject")
    func errors() {
        let error = SystemError("open", "/tmp/nothing", errno: ENOENT)
        #expect("\(error)" == "ENOENT: no such file or directory (/tmp/nothing)")
        #expect(error.name == "ENOENT")
        #expect("\(SystemError("eventfd", errno: EMFILE))" == "EMFILE: too many open files")
        #expect("\(SystemError("socket", errno: EDOTDOT))" == "EDOTDOT: RFS specific error")
        #expect("\(SystemError("odd", errno: 99999))" == "EUNKNOWN: unknown error")
        #expect(SystemError("bind", "x", errno: EADDRINUSE, reason: "it has an owner").message == "it has an owner")
        errno = EPERM
        #expect(SystemError("kill").errno == EPERM)
    }

    @Test("the entries of a directory are sorted and have their kinds")
    func directories() throws {
        try withDirectory { path in
            touch("\(path)/b")
            touch("\(path)/a")
            mkdir("\(path)/inner", 0o700)
            symlink("inner", "\(path)/link")
            let entries = try Directory.entries(of: path)
            #expect(entries.map { String(decoding: $0.name, as: UTF8.self) } == ["a", "b", "inner", "link"])
            #expect(entries.map(\.kind) == [.file, .file, .directory, .link])
            #expect(try Directory.kind(of: "\(path)/link") == .directory)
            #expect(Directory.target(ofLink: "\(path)/link") == Array("inner".utf8))
            #expect(throws: SystemError("opendir", "\(path)/a", errno: ENOTDIR)) {
                try Directory.entries(of: "\(path)/a")
            }
            #expect(throws: SystemError("stat", "\(path)/c", errno: ENOENT)) { try Directory.kind(of: "\(path)/c") }
        }
    }

    @Test("a watch reports changes in its directory only")
    func watch() throws {
        try withDirectory { path in
            let watch = try Watch()
            let number = try watch.add(path)
            #expect(watch.take().isEmpty)
            touch("\(path)/a")
            #expect(Descriptor.poll(watch.descriptor.number, POLLIN) == POLLIN)
            let changes = watch.take()
            #expect(changes.allSatisfy { $0.directory == number && $0.name == Array("a".utf8) })
            #expect(changes.map(\.events) == [UInt32(IN_CREATE), UInt32(IN_CLOSE_WRITE)])
            #expect(watch.take().isEmpty)
            #expect(throws: SystemError("inotify_add_watch", "\(path)/c", errno: ENOENT)) { try watch.add("\(path)/c") }
        }
    }

    @Test("a program gets its arguments, variables, directory and descriptors, and its end is reported")
    func programs() throws {
        let (output, theirs) = try Descriptor.pair()
        let script = "printf '%s %s %s' \"$0\" \"$X\" \"$PWD\"; exit 3"
        let program = try Program.start(
            ["sh", "-c", script, "né\u{1}"].map { Array($0.utf8) }, environment: [Array("X=1".utf8)],
            directory: Array("/usr".utf8), descriptors: [1: theirs])
        #expect(poll(program.end, seconds: 20))
        #expect(program.outcome() == .exit(status: 3))
        #expect(program.outcome() == .unknown)
        var bytes = [UInt8](repeating: 0, count: 100)
        let count = read(output.number, &bytes, bytes.count)
        #expect(String(decoding: bytes[..<max(0, count)], as: UTF8.self) == "né\u{1} 1 /usr")
        #expect(throws: SystemError("posix_spawn", "/nothing/here", errno: ENOENT)) {
            try Program.start([Array("/nothing/here".utf8)])
        }
    }

    @Test("a program leads a group and gets signals")
    func signals() throws {
        let program = try Program.start(["sh", "-c", "sleep 60 & wait"].map { Array($0.utf8) })
        #expect(program.outcome() == nil)
        #expect(getpgid(program.process) == program.process)
        try program.send(SIGKILL, toGroup: true)
        #expect(poll(program.end, seconds: 20))
        #expect(program.outcome() == .signal(SIGKILL))
    }

    @Test("a program in a terminal gets the terminal and its size")
    func terminals() throws {
        let terminal = try PseudoTerminal(rows: 7, columns: 33)
        let program = try Program.start(["stty", "size"].map { Array($0.utf8) }, terminalPath: terminal.path)
        #expect(poll(program.end, seconds: 20))
        var bytes = [UInt8](repeating: 0, count: 100)
        let count = read(terminal.master.number, &bytes, bytes.count)
        #expect(String(decoding: bytes[..<max(0, count)], as: UTF8.self) == "7 33\r\n")
        #expect(program.outcome() == .exit(status: 0))
    }

    @Test("a descriptor is closed with its last reference unless it was released")
    func descriptors() throws {
        var pair: (Descriptor, Descriptor)? = try Descriptor.pair(twoWay: true)
        let numbers = try #require(pair.map { [$0.0.number, $0.1.number] })
        #expect(numbers.allSatisfy { $0 > 3 && Descriptor.isOpen($0) && Descriptor.open(below: $0 + 1)[Int($0)] })
        _ = pair?.1.release()
        pair = nil
        #expect(!Descriptor.isOpen(numbers[0]))
        #expect(Descriptor.isOpen(numbers[1]))
        close(numbers[1])
        #expect(throws: SystemError("fcntl", "descriptor 999999", errno: EBADF)) {
            try Descriptor.setNonBlocking(999_999)
        }
    }

    @Test("a thread blocks all other signals than those it admits, and can wait for a condition")
    func threads() throws {
        let condition = Condition()
        let found = Lock<[Bool]>([])
        let thread = try Linux.Thread("a thread's name", stackSize: 1 << 20, admitting: [SIGTTIN]) {
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            var bytes = [UInt8](repeating: 0, count: 100)
            let file = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC)
            let count = read(file, &bytes, bytes.count)
            close(file)
            let name = String(decoding: bytes[..<max(0, count)], as: UTF8.self)
            condition.withLock {
                found.withLock {
                    $0 = [
                        sigismember(&mask, SIGINT) == 1, sigismember(&mask, SIGTTIN) == 0, name == "a thread's name\n",
                    ]
                }
                condition.signal()
            }
        }
        condition.lock()
        while found.withLock({ $0.isEmpty }) { #expect(condition.wait(milliseconds: 20_000)) }
        #expect(!condition.wait(milliseconds: 1))
        condition.unlock()
        thread.join()
        thread.join()
        #expect(found.withLock { $0 } == [true, true, true])
    }

    @Test("the error of a missing library names its package, and the library is tried again")
    func missingLibrary() {
        for _ in 1...2 {
            "libnowhere.so.9".withCString { name in
                "libnowhere9".withCString { package in
                    var library = linux_library(name: name, package: package, bind: { _ in nil }, is_ready: 0)
                    var text = [CChar](repeating: 0, count: 200)
                    #expect(linux_use_library(&library, &text, text.count) == ENOPKG)
                    #expect(
                        text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } }
                            == "libnowhere.so.9 is not installed (apt install libnowhere9)")
                }
            }
        }
    }

    @Test(
        "host names are converted to the form of name servers",
        arguments: [
            ("localhost", "localhost"), ("b\u{FC}cher.example", "xn--bcher-kva.example"),
            ("B\u{DC}CHER.example", "xn--bcher-kva.example"),
            ("a_b.\u{E4}", "a_b.xn--4ca"), ("\u{FF11}27.0.0.1", "127.0.0.1"), ("i\u{2764}.ws", "xn--i-7iq.ws"),
            ("b\u{FFFD}", nil), ("\u{2100}.x", nil),
            (String(repeating: "\u{FC}", count: 300), nil),
        ] as [(String, String?)])
    func hostNames(_ name: String, _ expected: String?) {
        do throws(HostName.Mistake) {
            #expect(try HostName.ascii(name) == expected)
        } catch {
            #expect(
                expected == nil && error.code == "EINVAL" && error.message.hasPrefix("not a host name: "), "\(error)")
        }
    }

    private func poll(_ descriptor: Descriptor, seconds: Int32) -> Bool {
        var asked = pollfd(fd: descriptor.number, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&asked, 1, seconds * 1000) == 1
    }
}
