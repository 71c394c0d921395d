internal import CLinux
internal import Glibc

/// A child process. The program leads its own process group, so that signals can reach it together with all programs
/// that it starts.
package final class Program: Sendable {
    package let process: Int32
    /// A pidfd, which becomes readable when the program ends.
    package let end: Descriptor

    /// The way in which a program ended.
    package enum Outcome: Equatable, Sendable {
        case exit(status: Int32)
        case signal(Int32)
        /// Other code has waited for the process and got its status.
        case unknown
    }

    private init(_ process: Int32, _ end: Descriptor) {
        self.process = process
        self.end = end
    }

    /// Starts a program. Arguments and variables are bytes without a NUL at the end.
    ///
    /// - Parameters:
    ///   - arguments: The program, which is looked up in PATH, and its arguments.
    ///   - environment: Variables as "NAME=value"; nil for those of this process.
    ///   - directory: The program's current directory; nil for that of this process.
    ///   - descriptors: The program's descriptors 0 to 3. If a descriptor is not given, 0 to 2 are /dev/null, and 3 is
    ///     closed.
    ///   - terminalPath: A terminal, such as that of a `PseudoTerminal`. The program leads a session with the terminal,
    ///     and has it as descriptors 0 to 2.
    ///   - leadsSession: If true, the program leads a session without a terminal, and gets no SIGHUP when this
    ///     process's terminal closes.
    ///   - diesWithUs: If true, the program is killed when this process ends in any way; its children are not.
    ///   - foreground: The result of `RawTerminal.toLend`. The program's group gets that terminal before the program
    ///     begins.
    ///   - owner: The address of an object that the program must not outlive; see `endAll`. Nil if it has none.
    /// - Throws: ENOENT, EACCES, E2BIG, EAGAIN, EMFILE and other errors of posix_spawn(3).
    package static func start(
        _ arguments: [[UInt8]], environment: [[UInt8]]? = nil, directory: [UInt8]? = nil,
        descriptors: [Int32: Descriptor] = [:], terminalPath: String? = nil, leadsSession: Bool = false,
        diesWithUs: Bool = false, foreground: Int32? = nil, owner: Int? = nil
    ) throws(SystemError) -> Program {
        // Check this before the start: what a started program has done cannot be undone.
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
            // Without that descriptor, the loop could not notice the end of the program.
            abandon(process)
            disown(process)
            throw error
        }
    }

    /// The error for a kernel or sandbox without pidfds, which no program can change.
    private static func unwatchable(_ errno: Int32) -> SystemError {
        let reason = "programs need Linux 5.3 or later: pidfd_open: \(SystemError.name(of: errno))"
        return SystemError("pidfd_open", errno: errno, reason: reason)
    }

    /// Returns how the program ended; nil while it runs. The system reports this once only.
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

    /// Returns whether a signal has stopped the program since the last call.
    package static func hasStopped(_ process: Int32) -> Bool { linux_program_has_stopped(process) != 0 }

    /// Sends a signal to the program, or to its whole group.
    ///
    /// - Throws: ESRCH if the program has ended; EPERM if it now runs as another user.
    package func send(_ signal: Int32, toGroup: Bool = false) throws(SystemError) {
        try Self.send(signal, to: toGroup ? -process : process)
    }

    /// - Parameter process: The number of a process; a negative number stands for a group.
    package static func send(_ signal: Int32, to process: Int32) throws(SystemError) {
        guard kill(process, signal) == 0 else { throw SystemError("kill", "process \(process)") }
    }

    /// Kills a program with its group at once, and waits for its end.
    package static func abandon(_ process: Int32) {
        kill(-process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, linux_errno() == EINTR {}
    }

    /// Whether a program that has ended, and was waited for, has left other processes in its group. If the group seems
    /// to exist, the call reads the states of all processes of the machine.
    package static func isLeft(_ process: Int32) -> Bool { linux_group_is_left(process) != 0 }

    /// Forgets a program that has ended, was waited for, and has left no processes in its group.
    package static func disown(_ process: Int32) { linux_disown_program(process) }

    /// Sends SIGTERM to the groups of an owner's programs, and SIGKILL to those that still exist a second later. Waits
    /// for their end. When the process ends, this happens to all programs that have owners.
    package static func endAll(of owner: Int) { linux_end_programs(UnsafeRawPointer(bitPattern: owner)) }

    /// Whether a program of this process works. Programs are the children of this process, and processes that ended
    /// children have left. A program that can only wait for data from this process does not work.
    package static var someWork: Bool { linux_programs_work() != 0 }

    /// Sets whether a program is a server of a test, which goes on in real time: `someWork` then ignores it and all
    /// that it starts. Returns false if there are too many servers.
    package static func note(server: Int32, _ isServer: Bool) -> Bool {
        linux_note_server(server, isServer ? 1 : 0) != 0
    }

    /// The process numbers of the programs of this process, at rest or not. O(children).
    package static var running: [Int32] {
        guard linux_programs_run() != 0 else { return [] }
        var found = [Int32](repeating: 0, count: 1024)
        return Array(found[..<Int(linux_programs(&found, 1024))])
    }

    /// A line of text for each working thread of these programs: the process, its command line, and its current system
    /// call.
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

    /// Calls `body` with a C array of C strings that ends with NULL.
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
