import Glibc
import Linux
import LuaPrompt
import LuaRunLoops
import RunLoops

/// A process that can be attached to.
struct AttachClientTarget {
    /// The number of the process in this process's PID namespace.
    let process: Int32
    /// The number of the process in its own PID namespace.
    let ownNumber: Int32
    let name: String?
    /// The process's XDG_RUNTIME_DIR; nil if it is not set.
    let runtimeDirectory: String?
    /// Whether the process has no port yet, and opens one when it is asked.
    var isAsked = false

    var portName: String { Attach.portName(process: ownNumber, name: name) }

    /// "process 123", or the same with its name.
    var text: String { "process \(process)" + (name.map { " (\($0))" } ?? "") }

    /// Returns this user's processes, by number: those that have a port, and those that would open one if asked.
    ///
    /// A process that a daemon has started may have another environment than a shell, and so its sockets may be in
    /// another directory. The function searches all such directories that it can read.
    static func all() -> [AttachClientTarget] {
        let own = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        let others = processes()
        var places: [String?] = [own]
        for place in [nil, "/run/user/\(getuid())"] + others.map(\.runtimeDirectory) as [String?]
        where !places.contains(place) { places.append(place) }
        var targets: [Int32: AttachClientTarget] = [:]
        for place in places {
            useRuntimeDirectory(place)
            for name in (try? RunLoop.MessagePort.names(withPrefix: Attach.prefix)) ?? [] {
                guard let (number, title) = Attach.parse(portName: name) else { continue }
                let process = RunLoop.MessagePort.owner(ofName: name) ?? number
                guard targets[process] == nil else { continue }
                targets[process] = AttachClientTarget(
                    process: process, ownNumber: number, name: title, runtimeDirectory: place)
            }
        }
        useRuntimeDirectory(own)
        for other in others where targets[other.process] == nil && Attach.canAsk(other.process) {
            targets[other.process] = other
        }
        return targets.values.sorted { $0.process < $1.process }
    }

    /// Returns this user's processes, as `all` does. Throws a refusal if there are none.
    static func some() throws(Program.Refusal) -> [AttachClientTarget] {
        let targets = all()
        if targets.isEmpty { throw .init(message: "there is no rlhost of yours that can be attached to") }
        return targets
    }

    /// Returns the processes of this user that run this program.
    private static func processes() -> [AttachClientTarget] {
        guard let entries = try? Directory.entries(of: "/proc"), let program = firstLine("/proc/self/comm") else {
            return []
        }
        return entries.compactMap { entry in
            let name = String(decoding: entry.name, as: UTF8.self)
            var information = stat()
            guard let process = Int32(name), process != getpid(), stat("/proc/\(name)", &information) == 0,
                information.st_uid == geteuid(), firstLine("/proc/\(name)/comm") == program
            else { return nil }
            return asked(process)
        }
    }

    /// Returns the target for a process without a port. Reads the directory for sockets from the environment that the
    /// process was started with.
    private static func asked(_ process: Int32) -> AttachClientTarget {
        let variables = Attach.contents(of: "/proc/\(process)/environ")?.split(separator: "\0") ?? []
        let directory = variables.first { $0.hasPrefix("XDG_RUNTIME_DIR=/") }.map {
            String($0.dropFirst("XDG_RUNTIME_DIR=".count))
        }
        return AttachClientTarget(
            process: process, ownNumber: ownNumber(of: process), name: nil, runtimeDirectory: directory, isAsked: true)
    }

    /// Returns the number of a process in its own PID namespace.
    private static func ownNumber(of process: Int32) -> Int32 {
        let status = Attach.contents(of: "/proc/\(process)/status") ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("NSpid:") }
        return line?.split { $0 == "\t" || $0 == " " }.last.flatMap { Int32($0) } ?? process
    }

    /// Asks the process to open its port, if it has none. Returns the target with the port's name.
    func opened() throws(Program.Refusal) -> AttachClientTarget {
        guard isAsked else { return self }
        Attach.ask(process)
        for _ in 0..<150 {
            Self.useRuntimeDirectory(runtimeDirectory)
            for name in (try? RunLoop.MessagePort.names(withPrefix: "\(Attach.prefix)\(ownNumber)")) ?? [] {
                guard let (number, title) = Attach.parse(portName: name), number == ownNumber,
                    RunLoop.MessagePort.owner(ofName: name) ?? process == process
                else { continue }
                return AttachClientTarget(
                    process: process, ownNumber: number, name: title, runtimeDirectory: runtimeDirectory)
            }
            usleep(20_000)
        }
        let namespace =
            ownNumber == process
            ? nil
            : "it is process \(ownNumber) of another PID namespace, and its port is not in a directory of this one; "
                + "attach to it from there"
        let state =
            isStopped ?? namespace
            ?? "it does not allow that, or runs a C function or a system call that takes long"
        throw .init(message: "\(text) has not answered for 3 s: \(state)")
    }

    static func useRuntimeDirectory(_ path: String?) {
        if let path { setenv("XDG_RUNTIME_DIR", path, 1) } else { unsetenv("XDG_RUNTIME_DIR") }
    }

    /// Finds the one process that has a number or a name.
    static func find(_ text: String) throws(Program.Refusal) -> AttachClientTarget {
        let targets = all()
        if let process = Int32(text), text.allSatisfy({ ("0"..."9").contains($0) }) {
            if let target = targets.first(where: { $0.process == process }) { return try target.opened() }
            // The program may have another file name, but it is an rlhost.
            if Attach.canAsk(process) { return try asked(process).opened() }
            throw .init(message: whyNot(process))
        }
        let found = targets.filter { $0.name == text }
        if let target = found.first, found.count == 1 { return target }
        if found.isEmpty {
            let names = Set(targets.compactMap(\.name)).sorted()
            let advice =
                names.isEmpty
                ? "; 'rlhost attach' lists those that can be attached to"
                : " (there are: \(names.joined(separator: ", ")))"
            throw .init(message: "no process that can be attached to has the name '\(text)'\(advice)")
        }
        let processes = found.map { "\($0.process)" }.joined(separator: ", ")
        throw .init(message: "\(found.count) processes have the name '\(text)': give the number of one: \(processes)")
    }

    /// Returns why a process without a port cannot be attached to.
    private static func whyNot(_ process: Int32) -> String {
        var information = stat()
        guard process > 0, stat("/proc/\(process)", &information) == 0 || kill(process, 0) == 0 || errno == EPERM else {
            return "there is no process \(process)"
        }
        if information.st_uid != geteuid(), let owner = owner(information.st_uid) {
            return "process \(process) belongs to \(owner); only that user can attach to it"
        }
        let program = Self.firstLine("/proc/\(process)/comm").map { " (\($0))" } ?? ""
        return
            "process \(process)\(program) cannot be attached to: it is not an rlhost, or does not allow it "
            + "(--no-attach, RLHOST_ATTACH=off, rl.attach(false))"
    }

    private static func owner(_ user: uid_t) -> String? {
        getpwuid(user).map { "user \(String(cString: $0.pointee.pw_name))" } ?? "user \(user)"
    }

    /// The command line of the process.
    var command: String {
        guard let words = Attach.contents(of: "/proc/\(process)/cmdline", most: 4096) else { return "?" }
        let text = words.split(separator: "\0").joined(separator: " ")
        return String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }

    /// The message about a process that was stopped, such as by Control-Z; nil if it runs.
    var isStopped: String? {
        guard let text = Self.firstLine("/proc/\(process)/stat"), let end = text.lastIndex(of: ")"),
            let state = text[end...].dropFirst(2).first, state == "T" || state == "t"
        else { return nil }
        return "it is stopped; 'kill -CONT \(process)' lets it go on"
    }

    private static func firstLine(_ path: String) -> String? {
        Attach.contents(of: path, most: 1024)?.split(separator: "\n").first.map(String.init)
    }
}
