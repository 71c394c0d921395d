internal import CLinux
internal import Glibc

/// A child process. It leads a process group of its own, so that it can be sent signals with all that it starts.
package final class Program: Sendable {
    package let process: Int32
    /// Becomes readable when it ends: a pidfd.
    package let end: Descriptor

    /// How it ended.
    package enum Outcome: Equatable, Sendable {
        case exit(status: Int32)
        case signal(Int32)
        /// Somebody else has waited for it.
        case unknown
    }

    private init(_ process: Int32, _ end: Descriptor) {
        self.process = process
        self.end = end
    }

    /// Starts a program. Arguments and variables are bytes without a zero behind them.
    ///
    /// - Parameters:
    ///   - arguments: the first is looked up in PATH.
    ///   - environment: "NAME=value" each; nil: this process's own.
    ///   - directory: nil: this process's own.
    ///   - descriptors: what it gets as its descriptors 0 to 3. Missing ones are /dev/null; there is no 3 then.
    ///   - terminalPath: it leads a session with this terminal, which it gets as 0 to 2; a `PseudoTerminal` has one.
    ///   - leadsSession: it has no terminal, and is not told when ours goes.
    ///   - diesWithUs: it is killed when this process ends, in whatever way; its children are not.
    ///   - foreground: what `RawTerminal.toLend` has answered: its group gets the terminal before it begins.
    ///   - owner: it is not to outlive this, whatever that is: see `endAll`. nil: it may.
    /// - Throws: ENOENT, EACCES, E2BIG, EAGAIN, EMFILE and the like.
    package static func start(
        _ arguments: [[UInt8]], environment: [[UInt8]]? = nil, directory: [UInt8]? = nil,
        descriptors: [Int32: Descriptor] = [:], terminalPath: String? = nil, leadsSession: Bool = false,
        diesWithUs: Bool = false, foreground: Int32? = nil, owner: Int? = nil
    ) throws(SystemError) -> Program {
        // Before it begins, and does what cannot be taken back.
        let refusal = linux_refuses_to_watch_programs()
        guard refusal == 0 else { throw Self.unwatchable(refusal) }
        var process: Int32 = 0
        let failure = withCStrings(arguments) { arguments in
            withCStrings(environment ?? []) { variables in
                withCStrings([directory ?? [], Array((terminalPath ?? "").utf8)]) { paths in
                    func number(_ place: Int32) -> Int32 { descriptors[place]?.number ?? -1 }
                    var program = linux_program()
                    program.arguments = arguments
                    program.environment = environment == nil ? nil : variables
                    program.directory = directory == nil ? nil : UnsafePointer(paths[0])
                    program.descriptors = (number(0), number(1), number(2), number(3))
                    program.terminal = terminalPath == nil ? nil : UnsafePointer(paths[1])
                    program.leads_session = leadsSession ? 1 : 0
                    program.dies_with_us = diesWithUs ? 1 : 0
                    program.foreground = foreground ?? -1
                    program.owner = owner.flatMap { UnsafeRawPointer(bitPattern: $0) }
                    return linux_start_program(&program, &process)
                }
            }
        }
        let name = String(decoding: arguments.first ?? [], as: UTF8.self)
        guard failure == 0 else { throw SystemError("posix_spawn", name, errno: failure) }
        do throws(SystemError) {
            return Program(process, try Descriptor(linux_watch_program(process), "pidfd_open", name))
        } catch {
            // Nobody would ever hear of its end.
            abandon(process)
            disown(process)
            throw error
        }
    }

    /// The kernel, or a sandbox, has no way to wait for a program as for anything else: no program is to blame.
    private static func unwatchable(_ errno: Int32) -> SystemError {
        let reason = "programs need Linux 5.3 or later: pidfd_open: \(SystemError.name(of: errno))"
        return SystemError("pidfd_open", errno: errno, reason: reason)
    }

    /// How it has ended, once that is so; nil while it runs. The system tells it once.
    package func outcome() -> Outcome? { Self.outcome(of: process) }

    package static func outcome(of process: Int32) -> Outcome? {
        var number: Int32 = 0
        switch linux_program_ended(process, &number) {
        case 0: return nil
        case 1: return .exit(status: number)
        case 2: return .signal(number)
        default: return .unknown
        }
    }

    /// Whether a signal has stopped it since this was last asked.
    package static func hasStopped(_ process: Int32) -> Bool { linux_program_has_stopped(process) != 0 }

    /// Sends it a signal; to its whole group, on request.
    ///
    /// - Throws: ESRCH when it has ended, EPERM when it has become another user's.
    package func send(_ signal: Int32, toGroup: Bool = false) throws(SystemError) {
        try Self.send(signal, to: toGroup ? -process : process)
    }

    /// - Parameter process: a negative one is a group.
    package static func send(_ signal: Int32, to process: Int32) throws(SystemError) {
        guard kill(process, signal) == 0 else { throw SystemError("kill", "process \(process)") }
    }

    /// Ends a program with its group, at once, and waits for that.
    package static func abandon(_ process: Int32) {
        kill(-process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, linux_errno() == EINTR {}
    }

    /// Whether a program that has ended, and has been waited for, has left others in its group. O(processes of the machine) if it seems so.
    package static func isLeft(_ process: Int32) -> Bool { linux_group_is_left(process) != 0 }

    /// It has ended, has been waited for, and has left nobody.
    package static func disown(_ process: Int32) { linux_disown_program(process) }

    /// The groups of an owner's programs get SIGTERM, and SIGKILL if they are there a second later. Waits for their end. At the end of
    /// the process that happens to all that have owners.
    package static func endAll(of owner: Int) { linux_end_programs(UnsafeRawPointer(bitPattern: owner)) }

    /// Whether a program that runs for this process works: a child, or one that a child has left behind. One that can only wait for
    /// what this process writes to it does not.
    package static var someWork: Bool { linux_programs_work() != 0 }

    /// The programs that run for this process, at rest or not. O(children).
    package static var running: [Int32] {
        guard linux_programs_run() != 0 else { return [] }
        var found = [Int32](repeating: 0, count: 1024)
        return Array(found[..<Int(linux_programs(&found, 1024))])
    }

    /// For each thread of these programs that works: the process, its words, and the system call that it is in.
    package static var workOfPrograms: [String] {
        var lines: [String] = []
        withUnsafeMutablePointer(to: &lines) { lines in
            linux_working_programs(lines) { context, line in
                guard let context, let line else { return }
                context.assumingMemoryBound(to: [String].self).pointee.append(String(cString: line))
            }
        }
        return lines
    }

    /// Calls `body` with a C array of C strings, NULL at the end.
    private static func withCStrings<Result>(
        _ list: [[UInt8]], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        let strings = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: list.count + 1)
        for (index, bytes) in list.enumerated() {
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count + 1)
            for (place, byte) in bytes.enumerated() { copy[place] = CChar(bitPattern: byte) }
            copy[bytes.count] = 0
            strings[index] = copy
        }
        strings[list.count] = nil
        defer {
            for index in list.indices { strings[index]?.deallocate() }
            strings.deallocate()
        }
        return body(strings)
    }
}
