internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The native functions of `runloop.process`, which is written in Lua. The Lua half checks the arguments and words the
/// errors; this half checks only what memory safety needs.
enum ProcessBinding {
    static let functions = Library(
        "runloop.process.",
        [
            SignalBinding.constructor,
            .init("start") { Call.run($0) { call throws(Misuse) in try start(call) } },
            .init("abandon") { Call.act($0) { call throws(Misuse) in try abandon(call) } },
            .init("outcome") { Call.run($0) { call throws(Misuse) in try outcome(call) } },
            .init("signal") { Call.run($0) { call throws(Misuse) in try signal(call) } },
            // Returns whether the group that a program has led still has members.
            .init("has_group") { Call.answer($0) { call throws(Misuse) in Program.isLeft(try process(call)) } },
            .init("signals") { Call.run($0) { call in call.answer(signals) } },
            .init("pipe") { Call.run($0) { call in pipe(call) } },
            .init("open") { Call.run($0) { call throws(Misuse) in try open(call) } },
            .close,
            // Writes what is in the buffers of C's standard streams.
            .init("flush") { Call.act($0) { _ in Terminal.flush() } },
            .init("terminal") { Call.run($0) { call throws(Misuse) in try terminal(call) } },
            // Returns a descriptor of this process's terminal for `start`; nil if there is none, or nil and the reason
            // if another program has it.
            .init("lend") { Call($0).attempt { () throws(SystemError) in try RawTerminal.toLend().map { Int($0) } } },
            // Called after `lend` if no program could be started.
            .init("keep") { Call.act($0) { _ in RawTerminal.keep() } },
            .init("take_back") {
                Call.act($0) { call throws(Misuse) in RawTerminal.takeBack(from: try process(call)) }
            },
            .init("suspend") { Call.act($0) { call throws(Misuse) in try suspend(call) } },
            .init("resize") { Call.run($0) { call throws(Misuse) in try resize(call) } },
            .init("records_arguments") { Call.run($0) { call in call.answer(LuaHost.recordsArguments) } },
            .init("environment") { Call.run($0) { call in call.answer(environment) } },
            .init("id") { Call.run($0) { call in call.answer(Int(getpid())) } },
            .init("directory") { Call.run($0) { call in directory(call) } },
            .init("set_directory") { Call.run($0) { call throws(Misuse) in try setDirectory(call) } },
            .init("set_user") { Call.run($0) { call throws(Misuse) in try UserBinding.setUser(call) } },
            .init("monotonic") { Call.run($0) { call in call.answer(monotonicMicroseconds) } },
            .init("notify") { Call.run($0) { call throws(Misuse) in try notify(call) } },
        ])

    /// Ends the programs of a Lua state when the state ends.
    final class Part: HostPart {
        var owner: Int { Int(bitPattern: ObjectIdentifier(self)) }
        override func willClose() { Program.endAll(of: owner) }
        override func reset() { Program.endAll(of: owner) }

        /// Recording numbers and labels of the running programs, by process number.
        private var recorded: [Int32: (number: UInt32, label: UInt32)] = [:]

        /// - Parameter name: without its arguments, unless those are to be recorded.
        func began(_ process: Int32, _ name: [UInt8], at site: UInt32) {
            guard host.loop.isRecording else { return }
            let text = String(decoding: name.prefix(60), as: UTF8.self)
            let title = RunLoop.Recorder.Title("program", name: text, place: host.site(site) ?? "")
            let label = RunLoop.Recorder.label(title, isForeign: true)
            recorded[process] = (host.loop.noteBeginning(label), label)
        }

        /// - Parameter status: The status as a shell reports it: 128 plus the signal's number if a signal has ended the
        ///   program.
        func ended(_ process: Int32, status: Int32) {
            guard let (number, label) = recorded.removeValue(forKey: process) else { return }
            host.loop.noteEnd(number, label, result: Int(status), failed: status != 0)
        }
    }

    /// start(words, environment or nil, directory or nil, input, output, errors, path of the terminal or nil, leads a
    /// session, dies with us, the terminal that we lend or nil, its name in recordings): returns the process number and
    /// a descriptor that becomes readable when the program ends. A descriptor of -1 means /dev/null.
    private static func start(_ call: Call) throws(Misuse) -> Int32 {
        let words = try call.argument(1, ByteStrings.self)
        let variables = try call.optional(2, ByteStrings.self)
        let directory = try call.optional(3, Bytes.self).map { Array($0) }
        let recordedName = try call.optional(11, Bytes.self).map { Array($0) }
        var descriptors: [Int32: Descriptor] = [:]
        defer { for descriptor in descriptors.values { _ = descriptor.release() } }
        for place in 0..<3 as Range<Int32> {
            let number = try call.number32(place + 4)
            if number >= 0 { descriptors[place] = Descriptor(number) }
        }
        let terminal = try call.optional(7, Text.self)
        let isDetached = call.stack.boolean(8)
        let lent = try call.optional(10, Integer.self).map { Int32(clamping: $0) }
        let part = call.luaHost.part(Part.self)
        let program: Program
        do throws(SystemError) {
            // A missing directory and a missing program give the same error. Only checking the directory shows which of
            // them is missing, and whether the directory may be entered.
            if let directory {
                var information = stat()
                let text = directory.withUnsafeBytes { String(anyBytes: $0) }
                let inside = text.isEmpty ? "" : text + "/."
                guard inside.withAnyCString({ stat($0, &information) }) == 0 else { throw SystemError("chdir", text) }
            }
            program = try Program.start(
                words, environment: variables, directory: directory, descriptors: descriptors, terminalPath: terminal,
                leadsSession: isDetached, diesWithUs: call.stack.boolean(9),
                foreground: lent, owner: isDetached ? nil : part.owner)
        } catch {
            if error.call == "pidfd_open", let reason = error.reason { return call.fail(reason, plainly: error.name) }
            let name = (words.first ?? []).withUnsafeBytes { String(anyBytes: $0) }
            guard error.errno == ENOENT, error.call == "posix_spawn" else { return call.fail(error) }
            // A missing /dev/null gives the same error, too.
            let getsNothing = terminal == nil && descriptors.count < 3
            if getsNothing, access("/dev/null", F_OK) != 0 { return call.fail(SystemError("open", "/dev/null")) }
            // The program exists, but the interpreter that its first line names does not.
            let isScript = name.utf8.contains(UInt8(ascii: "/")) && name.withAnyCString { access($0, F_OK) } == 0
            return call.fail(
                isScript ? "the interpreter of \(name) is missing" : "no such program: \(name)", code: "ENOENT")
        }
        part.began(program.process, recordedName ?? words.first ?? [], at: call.site)
        call.stack.push(Int(program.process))
        call.stack.push(Int(program.end.release()))
        return call.values(2)
    }

    private static func process(_ call: Call) throws(Misuse) -> Int32 {
        let number = try call.number32()
        // kill(2) takes 0 as the group of this process, and -1 as every process.
        guard number != 0, number != -1, number != 1 else { throw Misuse("a process is expected, got \(number)") }
        return number
    }

    /// abandon(number): ends a program that has just started, and waits for its end.
    private static func abandon(_ call: Call) throws(Misuse) {
        let number = try process(call)
        guard number > 1 else { throw Misuse("a process is expected, got \(number)") }
        Program.abandon(number)
        Program.disown(number)
        call.luaHost.part(Part.self).ended(number, status: 128 + SIGKILL)
    }

    /// outcome(number): returns "exit" and the status, or "signal" and the signal's number; nothing while the program
    /// runs. The system reports each end only once.
    private static func outcome(_ call: Call) throws(Misuse) -> Int32 {
        let number = try process(call)
        guard let outcome = Program.outcome(of: number) else { return call.nothing() }
        // Processes that the program has started may remain in its group. These are ended when this process ends.
        if !Program.isLeft(number) { Program.disown(number) }
        let part = call.luaHost.part(Part.self)
        switch outcome {
        case .exit(let status): part.ended(number, status: status)
        case .signal(let signal): part.ended(number, status: 128 + signal)
        case .unknown: part.ended(number, status: 0)
        }
        // The outcome is unknown because other code has waited for the program, such as a C module that waits for every
        // child.
        return call.answer(ValueProgram(outcome, unknown: ("exit", -1)))
    }

    private static func signal(_ call: Call) throws(Misuse) -> Int32 {
        let number = try process(call)
        let signal = try call.number32(2)
        return call.attempt { () throws(SystemError) in try Program.send(signal, to: number) }
    }

    private static var signals: ValueProgram {
        let all: [(String, Int32)] = [
            ("HUP", SIGHUP), ("INT", SIGINT), ("QUIT", SIGQUIT), ("ILL", SIGILL), ("TRAP", SIGTRAP), ("ABRT", SIGABRT),
            ("BUS", SIGBUS), ("FPE", SIGFPE), ("KILL", SIGKILL), ("USR1", SIGUSR1), ("SEGV", SIGSEGV),
            ("USR2", SIGUSR2),
            ("PIPE", SIGPIPE), ("ALRM", SIGALRM), ("TERM", SIGTERM), ("CHLD", SIGCHLD), ("CONT", SIGCONT),
            ("STOP", SIGSTOP), ("TSTP", SIGTSTP), ("TTIN", SIGTTIN), ("TTOU", SIGTTOU), ("URG", SIGURG),
            ("XCPU", SIGXCPU),
            ("XFSZ", SIGXFSZ), ("VTALRM", SIGVTALRM), ("PROF", SIGPROF), ("WINCH", SIGWINCH), ("IO", SIGIO),
            ("PWR", SIGPWR), ("SYS", SIGSYS),
        ]
        var program = ValueProgram()
        program.table { table in for (name, number) in all { table.field(name) { $0.append(Int(number)) } } }
        return program
    }

    private static func pipe(_ call: Call) -> Int32 {
        call.attempt { () throws(SystemError) in
            let (from, to) = try Descriptor.pair()
            call.stack.push(Int(from.release()))
            call.stack.push(Int(to.release()))
            return call.values(2)
        }
    }

    /// open(path, reads): opens a file again, for a program to read from or to write to.
    private static func open(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        let reads = call.stack.boolean(2)
        return call.attempt { () throws(SystemError) in
            let descriptor = try Descriptor(
                path.withAnyCString {
                    Glibc.open($0, (reads ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC) | O_CLOEXEC, 0o666)
                },
                "open", path)
            return Int(descriptor.release())
        }
    }

    /// terminal(rows, columns): returns our end of a new terminal, the path of the other end, and the other end opened.
    private static func terminal(_ call: Call) throws(Misuse) -> Int32 {
        let (rows, columns) = (try call.number32(1), try call.number32(2))
        return call.attempt { () throws(SystemError) in
            let terminal = try PseudoTerminal(rows: rows, columns: columns)
            let slave = try terminal.slave()
            var program = ValueProgram()
            program.append(Int(terminal.master.release()))
            program.append(terminal.path)
            program.append(Int(slave.release()))
            return program
        }
    }

    /// suspend(number): stops this process if that program has stopped. Continues the program when this process is
    /// continued.
    private static func suspend(_ call: Call) throws(Misuse) {
        let number = try process(call)
        guard Program.hasStopped(number) else { return }
        RawTerminal.takeBack(from: number)
        RawTerminal.suspend()
        RawTerminal.lendAgain(to: number)
        kill(-number, SIGCONT)
    }

    private static func resize(_ call: Call) throws(Misuse) -> Int32 {
        let (master, rows, columns) = (try call.number32(1), try call.number32(2), try call.number32(3))
        return call.attempt { () throws(SystemError) in
            try PseudoTerminal.resize(master, rows: rows, columns: columns)
        }
    }

    /// The environment as names and values.
    private static var environment: ValueProgram {
        var program = ValueProgram()
        program.table { table in
            for entry in ProcessEnvironment.all {
                guard let equals = entry.dropFirst().firstIndex(of: UInt8(ascii: "=")) else { continue }
                let name = entry[..<equals]
                let value = entry[(equals + 1)...]
                table.field(name.withUnsafeBytes { String(anyBytes: $0) }) { program in
                    program.append(value.withUnsafeBytes { String(anyBytes: $0) })
                }
            }
        }
        return program
    }

    private static func directory(_ call: Call) -> Int32 {
        System.realPath(of: ".").map { call.answer($0) } ?? call.fail(SystemError("getcwd"))
    }

    private static func setDirectory(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        if path.utf8.contains(0) { throw Misuse("argument #1 contains a NUL, which no path can have") }
        return path.withAnyCString { chdir($0) } == 0 ? call.answer(true) : call.fail(SystemError("chdir", path))
    }

    /// The service manager's clock. Scripts in virtual time have a different clock.
    private static var monotonicMicroseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// Sends a message as sd_notify(3) does. Returns false if no service manager has started us.
    private static func notify(_ call: Call) throws(Misuse) -> Int32 {
        let text = try call.argument(1, Bytes.self)
        return call.attempt { () throws(SystemError) in try ServiceManager.notify(text) }
    }
}
