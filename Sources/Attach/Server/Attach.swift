internal import Lua

/// What `rlhost attach` and the process that it attaches to say to each other, in messages of a message port.
///
/// The client asks for what comes next by requests, several at a time, and gets events: what its code has printed, how it
/// ended. So a client that takes nothing gets nothing, and the process knows how much waits for it.
public enum Attach {
    /// Who speaks another version is told so, and goes.
    public static let version = 2

    /// The name of a process's port: its number, and the name that it was given, if any.
    public static let prefix = "rlhost-attach."

    public static func portName(process: Int32, name: String?) -> String {
        prefix + "\(process)" + (name.map { ".\($0)" } ?? "")
    }

    /// The process and the name that a port's name tells; nil if it is none of ours.
    public static func parse(portName: String) -> (process: Int32, name: String?)? {
        guard portName.hasPrefix(prefix) else { return nil }
        let parts = portName.dropFirst(prefix.count).split(separator: ".", maxSplits: 1)
        guard let first = parts.first, let process = Int32(first), process > 0 else { return nil }
        return (process, parts.count == 2 ? String(parts[1]) : nil)
    }

    public static let longestName = 60

    /// What is wrong with a name, as the end of a sentence; nil: nothing.
    public static func fault(inName name: String) -> String? {
        if name.isEmpty || name.utf8.count > longestName { return "must have 1 to \(longestName) bytes" }
        if name.allSatisfy({ ("0"..."9").contains($0) }) { return "must not be a number: that is a process's" }
        if name.utf8.contains(where: { $0 <= 0x20 || $0 == 0x2F || $0 == 0x7F }) || name.utf8.first == 0x2D {
            return "must not begin with '-', nor have blanks, control characters or '/' in it"
        }
        return nil
    }

    /// Messages of the client, by id.
    public enum Request: Int32, Sendable {
        /// The version, and the terminal's name, in lines. The answer: version, name, script and what runs it, in lines.
        case hello = 1
        /// Answered with events, as soon as there are any.
        case next = 2
        /// An entry to run; see `Entry`. Answered at once; what becomes of it comes as events.
        case enter = 3
        /// The number of an entry that is to end. Answered at once.
        case interrupt = 4
        /// A text; the answer has the start of what is to be completed and the candidates, in lines.
        case complete = 6
        /// "why", "timers", "tasks", "traceback", or "help" and a name; the answer is a text.
        case ask = 7
        /// The answer says where the process is; also while its loop does not turn.
        case whereabouts = 8
        /// The callback that runs is to end. The answer says which that was.
        case interruptCallback = 9
        /// How many nanoseconds it is about, in digits. The answer is JSON; see `activity`. Who only asks this says no hello.
        case activity = 10
        /// What the tasks of all threads wait in, in lines: the thread's name, a tabulator, what `ask` with "tasks" says. Who only asks
        /// this says no hello, either.
        case tasks = 11
        /// A path, to which the last moments are written, whether its loop turns or not. The answer: "+" and what is to be said of that,
        /// or "-" and why they are not.
        case dump = 12
    }

    /// What the client gets to know.
    public enum Event: UInt8, Sendable {
        /// What the entry that runs has printed.
        case output = 1
        /// Values of an entry, as text.
        case result = 2
        /// Message and traceback of an entry that failed.
        case error = 3
        /// The entry begins to run. The number.
        case started = 4
        /// The entry has ended: its number, and, behind a blank, "ok", "failed", "interrupted".
        case ended = 5
        /// What the client should say to its user.
        case notice = 6
        /// The process ends.
        case end = 7
    }

    /// No piece of an event is longer; longer ones come in several.
    static let longestPiece = 64 << 10

    /// An event as it travels: its kind, the length of its bytes, its bytes.
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

    /// The events in an answer. What is none is left out.
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

    /// An entry on its way.
    public struct Entry: Sendable {
        static let lastNumber = 1 << 31
        /// Counted by the client, from 1 on; each has a greater one than those before.
        public var number: Int
        public var text: String
        /// Columns of the client's terminal.
        public var width: Int
        public var usesColor: Bool
        /// Its values are shown with all that is in them.
        public var isDeep: Bool
        /// Nothing that it prints may be lost, however long that takes.
        public var isWhole: Bool
        /// Texts among its values are shown as they are, for a program to read.
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
