internal import Lua

/// The protocol between `rlhost attach` and the process that it attaches to. Both use messages of a message port.
///
/// The client keeps several requests for events pending. The process answers each request with events: output of the
/// client's code, and how the code ended. So a client that sends no requests gets no events, and the process knows how
/// many bytes the client has not fetched yet.
public enum Attach {
    /// A client with another version gets a message that says so, and leaves.
    public static let version = 2

    /// The beginning of the name of a process's port. The process number follows, and a name if one was given.
    public static let prefix = "rlhost-attach."

    public static func portName(process: Int32, name: String?) -> String {
        prefix + "\(process)" + (name.map { ".\($0)" } ?? "")
    }

    /// Returns the process and the name in the name of a port; nil if it is not one of our ports.
    public static func parse(portName: String) -> (process: Int32, name: String?)? {
        guard portName.hasPrefix(prefix) else { return nil }
        let parts = portName.dropFirst(prefix.count).split(separator: ".", maxSplits: 1)
        guard let first = parts.first, let process = Int32(first), process > 0 else { return nil }
        return (process, parts.count == 2 ? String(parts[1]) : nil)
    }

    public static let longestName = 60

    /// Returns the problem with a name, as the end of a sentence; nil if the name is valid.
    public static func fault(inName name: String) -> String? {
        if name.isEmpty || name.utf8.count > longestName { return "must have 1 to \(longestName) bytes" }
        if name.allSatisfy({ ("0"..."9").contains($0) }) { return "must not be a number: numbers name processes" }
        if name.utf8.contains(where: { $0 <= 0x20 || $0 == 0x2F || $0 == 0x7F }) || name.utf8.first == 0x2D {
            return "must not begin with '-' or contain blanks, control characters or '/'"
        }
        return nil
    }

    /// Messages of the client, by id.
    public enum Request: Int32, Sendable {
        /// Content: the version and the terminal's name, in lines. Answer: version, name, script and interpreter, in
        /// lines.
        case hello = 1
        /// Answered with events, as soon as there are any.
        case next = 2
        /// An entry to run; see `Entry`. Answered at once; events report its progress.
        case enter = 3
        /// The number of an entry that is to end. Answered at once.
        case interrupt = 4
        /// Content: a text. Answer: the offset of the part to complete, and the candidates, in lines.
        case complete = 6
        /// Content: "why", "timers", "tasks", "traceback", or "help" and a name. Answer: a text.
        case ask = 7
        /// The answer names the code that the process executes. Works even while its loop makes no passes.
        case whereabouts = 8
        /// Ends the running callback. The answer names this callback.
        case interruptCallback = 9
        /// Content: a time in nanoseconds, in digits. Answer: JSON; see `activity`. A client that sends only this
        /// request needs no hello.
        case activity = 10
        /// Answer: the calls in which the tasks of all threads wait, in lines: the thread's name, a tabulator, and the
        /// text of `ask` with "tasks". A client that sends only this request needs no hello either.
        case tasks = 11
        /// Dumps the last moments of the recording. Content: the path of the file. Works even while the loop makes no
        /// passes. Answer: "+" and a remark, or "-" and the reason why nothing was written.
        case dump = 12
    }

    /// Events that the client receives.
    public enum Event: UInt8, Sendable {
        /// Output of the entry that runs.
        case output = 1
        /// Values of an entry, as text.
        case result = 2
        /// Message and traceback of an entry that failed.
        case error = 3
        /// An entry begins to run. Content: its number.
        case started = 4
        /// An entry has ended. Content: its number, a blank, and "ok", "failed" or "interrupted".
        case ended = 5
        /// A message that the client shows to its user.
        case notice = 6
        /// The process ends.
        case end = 7
    }

    /// The largest number of bytes in a piece of an event. A longer event is sent in several pieces.
    static let longestPiece = 64 << 10

    /// Appends an event in the form in which it is sent: its kind, the length of its bytes, its bytes.
    static func append(_ event: Event, _ bytes: some Collection<UInt8>, to buffer: inout [UInt8]) {
        buffer.append(event.rawValue)
        append(UInt32(bytes.count), to: &buffer)
        buffer.append(contentsOf: bytes)
    }

    static func append(_ number: UInt32, to buffer: inout [UInt8]) {
        for shift in stride(from: UInt32(24), through: 0, by: -8) {
            buffer.append(UInt8(truncatingIfNeeded: number >> shift))
        }
    }

    static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) } }

    /// Returns the events in an answer. Skips bytes that are not an event.
    public static func events(in bytes: [UInt8]) -> [(event: Event, bytes: [UInt8])] {
        var events: [(Event, [UInt8])] = []
        var rest = bytes[...]
        while rest.count >= 5 {
            let kind = rest[rest.startIndex]
            let count = number(rest.dropFirst())
            rest = rest.dropFirst(5)
            if let event = Event(rawValue: kind) { events.append((event, Array(rest.prefix(count)))) }
            rest = rest.dropFirst(count)
        }
        return events
    }

    /// An entry, as the client sends it.
    public struct Entry: Sendable {
        static let lastNumber = 1 << 31
        /// Counted by the client from 1 on, in ascending order.
        public var number: Int
        public var text: String
        /// The columns of the client's terminal.
        public var width: Int
        public var usesColor: Bool
        /// Whether values are shown with all their contents.
        public var isDeep: Bool
        /// Whether all output must be kept, even if printing has to wait for long.
        public var isWhole: Bool
        /// Whether texts among the values are shown unquoted, for a program to read.
        public var isPlain: Bool

        public init(
            number: Int, text: String, width: Int, usesColor: Bool, isDeep: Bool = false, isWhole: Bool = false,
            isPlain: Bool = false
        ) {
            self.number = number
            self.text = text
            self.width = width
            self.usesColor = usesColor
            self.isDeep = isDeep
            self.isWhole = isWhole
            self.isPlain = isPlain
        }

        public var bytes: [UInt8] {
            let flags = [usesColor, isDeep, isWhole, isPlain].map { $0 ? " 1" : " 0" }.joined()
            return Array("\(number) \(width)\(flags)\n".utf8) + text.anyBytes
        }

        public init?(_ bytes: [UInt8]) {
            guard let end = bytes.firstIndex(of: 10) else { return nil }
            let fields = String(decoding: bytes[..<end], as: UTF8.self).split(separator: " ").compactMap { Int($0) }
            guard fields.count == 6, (1...Self.lastNumber).contains(fields[0]) else { return nil }
            let text = bytes[(end + 1)...].withUnsafeBytes { String(anyBytes: $0) }
            self.init(
                number: fields[0], text: text, width: max(10, min(fields[1], 10_000)), usesColor: fields[2] != 0,
                isDeep: fields[3] != 0, isWhole: fields[4] != 0, isPlain: fields[5] != 0)
        }
    }
}
