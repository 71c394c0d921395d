import Foundation
import TestSupport
import Glibc

@testable import LineEditor

/// A prompt in a pseudo-terminal, and the screen as a terminal would show it.
final class PromptSession {
    private(set) var screen: Screen
    /// Each recorded screen differs from the one before.
    private(set) var problems: [String] = []
    private let master: Int32
    private var process: pid_t = 0
    let folder: PromptFolder
    private(set) var status: Int32?

    struct Failure: Error, CustomStringConvertible { let description: String }

    /// The sizes in which every row of the prompt's table is tried: the usual one, and one in which nearly everything
    /// wraps and scrolls.
    static let sizes = [(80, 24), (20, 5)]

    /// - Parameters:
    ///   - arguments: for rlhost.
    ///   - shell: start a shell with job control instead, which knows the program as `$RLHOST`.
    ///   - files: texts by name, written to the folder that is the home directory and the working directory.
    init(
        _ arguments: [String] = [], columns: Int = 80, rows: Int = 24, environment: [String: String] = [:],
        files: [String: String] = [:], folder: PromptFolder? = nil, shell: Bool = false
    ) throws {
        screen = Screen(columns: columns, rows: rows)
        self.folder = try folder ?? PromptFolder()
        for (name, text) in files {
            let url = self.folder.url.appending(path: name)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: url)
        }
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var number: Int32 = 0
        var lock: Int32 = 0
        // TIOCSPTLCK and TIOCGPTN: unlock the other end, and ask for its number.
        guard master >= 0, ioctl(master, 0x4004_5431, &lock) == 0, ioctl(master, 0x8004_5430, &number) == 0 else {
            throw Failure(description: "no pseudo-terminal: \(errno)")
        }
        setSize(columns, rows)
        var variables = [
            "PATH": "/usr/bin:/bin", "TERM": "xterm", "NO_COLOR": "1", "HOME": self.folder.url.path,
            "LC_ALL": "C.UTF-8", "RLHOST": Binary.path, "PS1": "$ ", "ENV": "",
        ]
        for options in ["ASAN_OPTIONS", "TSAN_OPTIONS"] {
            if let value = ProcessInfo.processInfo.environment[options] { variables[options] = value }
        }
        variables.merge(environment) { _, given in given }
        try spawn(
            ["/usr/bin/env", "-C", self.folder.url.path] + (shell ? ["/bin/sh", "-i"] : [Binary.path]) + arguments,
            variables,
            terminal: "/dev/pts/\(number)")
    }

    deinit {
        if process != 0, status == nil {
            kill(process, SIGKILL)
            var status: Int32 = 0
            TestMeter.waitpid(process, &status, 0)
        }
        close(master)
    }

    private func spawn(_ command: [String], _ environment: [String: String], terminal: String) throws {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        // POSIX_SPAWN_SETSID: a new session, whose terminal becomes the first one that the program opens.
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | 0x80))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, terminal, O_RDWR, 0)
        posix_spawn_file_actions_adddup2(&actions, 0, 1)
        posix_spawn_file_actions_adddup2(&actions, 0, 2)
        let arguments = command.map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        let error = posix_spawn(&process, command[0], &actions, &attributes, arguments, variables)
        guard error == 0 else {
            throw Failure(description: "cannot start \(command[0]): \(String(cString: strerror(error)))")
        }
    }

    private func setSize(_ columns: Int, _ rows: Int) {
        var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    func resize(_ columns: Int, _ rows: Int) {
        screen.resize(columns: columns, rows: rows, reflows: true)
        setSize(columns, rows)
    }

    /// Sends keys.
    func type(_ keys: String) throws { try type(bytes: Array(keys.utf8)) }

    /// Sends bytes that need not be UTF-8.
    func type(bytes: [UInt8]) throws {
        var bytes = bytes[...]
        while !bytes.isEmpty {
            let part = bytes.prefix(512)
            let count = part.withUnsafeBytes { write(master, $0.baseAddress, $0.count) }
            guard count > 0 else {
                hasEnded = true
                throw Failure(description: "cannot write: \(errno)")
            }
            bytes = bytes.dropFirst(count)
            _ = read(milliseconds: 0)
        }
    }

    /// Whether the cursor is directly after an empty prompt.
    var isAtPrompt: Bool { screen.rows[screen.row].text == ">" && screen.column == 2 }

    /// The screen's rows, with a bar where the cursor is.
    var picture: [String] {
        var lines = screen.lines
        while lines.count <= screen.row { lines.append("") }
        var row = screen.rows[screen.row].places.map(\.text)
        row[screen.column] = "|" + row[screen.column]
        lines[screen.row] = row.joined().withoutBlanksAtEnd
        return lines
    }

    /// Reads output until the screen satisfies a condition. Types `key` again every two seconds.
    func until(
        _ what: String, seconds: Double = 15, pressing key: String? = nil, until condition: (PromptSession) -> Bool
    ) throws {
        let deadline = Date(timeIntervalSinceNow: seconds)
        var again = Date(timeIntervalSinceNow: 2)
        while !condition(self) {
            if let key, Date() > again {
                try type(key)
                again = Date(timeIntervalSinceNow: 2)
            }
            guard Date() < deadline else {
                throw Failure(
                    description: "waited in vain for \(what); the text:\n\(text.suffix(40).joined(separator: "\n"))")
            }
            guard read(milliseconds: 100) else {
                if condition(self) { return }
                throw Failure(
                    description: "it ended instead of \(what); the text:\n\(text.suffix(40).joined(separator: "\n"))")
            }
        }
    }

    /// All output so far, in the lines of an endless screen, with a bar where the cursor is. So the text does not
    /// depend on the size of the terminal.
    var text: [String] {
        var result: [String] = []
        var isContinued = false
        let first = screen.scrolledOff.count
        let rows = screen.scrolledOff + screen.rows
        let used = max(first + screen.row, rows.lastIndex { !$0.text.isEmpty } ?? 0)
        for (index, row) in rows[...used].enumerated() {
            var places = row.places.map(\.text)
            if index == first + screen.row { places[screen.column] = "|" + places[screen.column] }
            if !isContinued { result.append("") }
            result[result.count - 1] += places.joined()
            isContinued = row.wraps
            if !isContinued { result[result.count - 1] = result[result.count - 1].withoutBlanksAtEnd }
        }
        return Array(result.dropFirst(forgotten))
    }

    private var forgotten = 0

    /// Searches the lines from the prompt's line on.
    func forget() { forgotten += max(text.count - 1, 0) }

    /// Waits until the output ends with these lines, broken into rows where they are too long for the terminal; a bar
    /// stands for the cursor.
    func until(ending lines: String...) throws {
        let wanted = lines.flatMap(rows(of:))
        try until("the lines\n\(lines.joined(separator: "\n"))\n") { session in
            Array((session.screen.scrolledOff.map(\.text) + session.picture).suffix(wanted.count)) == wanted
        }
    }

    private func rows(of line: String) -> [String] {
        var rows = [""]
        var used = 0
        for character in line {
            let width = character == "|" ? 0 : CharacterWidth.of(character.unicodeScalars)
            // The cursor does not stay after the last column.
            if used + max(width, 1) > screen.columns {
                rows.append("")
                used = 0
            }
            rows[rows.count - 1].append(character)
            used += width
        }
        return rows.map(\.withoutBlanksAtEnd)
    }

    /// Types an entry that does not end soon, and waits until it computes or sleeps.
    func begin(_ entry: String) throws {
        try type(entry + "\r")
        try until("the row below the entry") { $0.text.last == "|" }
        settle()
    }

    /// Waits until the program computes or sleeps.
    func settle() { ProcessActivity.settle(process) }

    /// Waits until the screen ends with a prompt and nothing after it.
    func untilPrompt() throws { try until("the prompt") { $0.isAtPrompt } }

    /// Types an entry and waits for the prompt; a line since the entry has to contain `part`.
    func enter(_ entry: String, showing part: String = "") throws {
        forget()
        try type(entry + "\r")
        try until("'\(part)' after '\(entry)', and the prompt") { session in
            session.isAtPrompt && session.text.count > 1
                && session.text.dropFirst().contains { part.isEmpty || $0.contains(part) }
        }
    }

    func until(_ picture: [String]) throws {
        try until("the screen\n\(picture.joined(separator: "\n"))\n") { $0.picture == picture }
    }

    /// The rows below the banner.
    func until(rows: [String]) throws {
        try until("the rows\n\(rows.joined(separator: "\n"))\n") { Array($0.picture.dropFirst()) == rows }
    }

    /// How often two carriage returns have been received in a row.
    private(set) var doubledReturns = 0

    /// How many bytes have been received.
    private(set) var received = 0

    /// How many escape sequences have been received.
    private(set) var sequences = 0

    /// Called with the screen after every portion of output.
    var watch: ((PromptSession) -> Void)?

    /// The program has closed the terminal.
    private(set) var hasEnded = false

    /// Returns false at the end of the program.
    private func read(milliseconds: Int32) -> Bool {
        var ready = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
        guard poll(&ready, 1, milliseconds) > 0 else { return true }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(master, $0.baseAddress, $0.count) }
        guard count > 0 else {
            hasEnded = true
            return false
        }
        for (place, byte) in bytes[..<count].enumerated() where byte == 13 && place > 0 && bytes[place - 1] == 13 {
            doubledReturns += 1
        }
        received += count
        sequences += bytes[..<count].count { $0 == 0x1B }
        screen.write(Array(bytes[..<count]))
        watch?(self)
        return true
    }

    /// Waits for the program's end, and returns the exit status.
    func finish() throws -> Int32 {
        let deadline = Date(timeIntervalSinceNow: 15)
        while read(milliseconds: 100) {
            guard Date() < deadline else {
                throw Failure(description: "it does not end; the screen:\n\(picture.joined(separator: "\n"))")
            }
        }
        var status: Int32 = 0
        TestMeter.waitpid(process, &status, 0)
        let signal = status & 0x7f
        let exitStatus = signal != 0 ? 128 + signal : status >> 8 & 0xff
        self.status = exitStatus
        return exitStatus
    }

    func signal(_ number: Int32) { kill(process, number) }
}

/// A folder that is removed with its last reference.
final class PromptFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "rlhost-prompt-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }
}
