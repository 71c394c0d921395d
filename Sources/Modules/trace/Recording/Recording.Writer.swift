internal import Glibc
package import Linux

extension Recording {
    /// Writes a recording to a file, as it comes: nothing of it stays in memory but what makes up a piece.
    ///
    /// A name, and a thread, is told before the first record that has its number; one number means one thing in a whole recording.
    /// Records of one thread come in their order, those of different threads may come in any. Not thread-safe: one thread at a time.
    ///
    /// What the file has no room for is counted, and the file says so: see `isFull`.
    package final class Writer {
        /// Bytes that a file has at most where nobody says otherwise.
        package static let defaultLimit = 256 << 20
        /// The least that makes sense: the page alone has 50 kB.
        package static let leastLimit = 1 << 20

        package let format: Format
        private let file: Descriptor
        /// Nil if somebody else has opened the descriptor.
        private var output: OutputFile?
        private let path: String
        private let limit: Int
        private let encoder: any Encoder
        private var about: About
        private var written = 0
        /// Records that were told, and those of them that are in the file.
        private var told = 0
        private var kept = 0
        private var known: Set<UInt32> = []
        private var isFinished = false

        /// No record has room any more. O(1).
        package private(set) var isFull = false

        /// Bytes that are gathered before they go to the file.
        private static let piece = 1 << 17
        /// Kept free for what a recording ends with.
        private static let reserve = 1 << 12

        /// Writes a file that takes the place of the one at a path. The ending of its name is its format. Only the owner can read it:
        /// it holds names of files and of what a script does.
        ///
        /// - Parameters:
        ///   - isSeenAtOnce: the path names the new file at once, so that a process which is killed leaves what it has recorded.
        ///     Otherwise the path names it when it is finished, and the old one stays if that fails.
        ///   - followsLinks: see `OutputFile`.
        /// - Throws: EINVAL for another ending; what `OutputFile` and write(2) throw.
        package convenience init(
            path: String, about: About, limit: Int = defaultLimit, isSeenAtOnce: Bool = false, followsLinks: Bool = true
        ) throws(SystemError) {
            guard let format = Format(path: path) else {
                throw SystemError("trace", path, errno: EINVAL, reason: "\(Format.advice), not as '\(path)'")
            }
            let output = try OutputFile(replacing: path, followsLinks: followsLinks)
            try self.init(output.descriptor, path: path, format: format, about: about, limit: limit)
            if isSeenAtOnce { try output.putInPlace() } else { self.output = output }
        }

        /// - Parameter path: for messages.
        package init(
            _ file: Descriptor, path: String, format: Format, about: About, limit: Int = defaultLimit
        ) throws(SystemError) {
            self.file = file
            self.path = path
            self.format = format
            self.about = about
            self.about.title = about.title.shownInLine
            self.limit = max(limit, Self.leastLimit)
            encoder =
                switch format {
                case .page: PageEncoder()
                case .perfetto: PerfettoEncoder()
                case .events: EventsEncoder()
                }
            encoder.begin(self.about)
            try put()
        }

        /// Says what a number means. Once told, it keeps its meaning. O(1), amortized.
        package func name(_ number: UInt32, _ name: Name) throws(SystemError) {
            guard !isFull, !isFinished, known.insert(number).inserted else { return }
            encoder.name(number, name)
            try putIfLarge()
        }

        /// Whether `name` was told of this number.
        package func knows(_ number: UInt32) -> Bool { known.contains(number) }

        /// Names a loop, in words such as "main" or "worker 2".
        package func thread(_ number: UInt16, _ name: String) throws(SystemError) {
            guard !isFull, !isFinished else { return }
            encoder.thread(number, name.shownInLine)
            try putIfLarge()
        }

        /// Writes records, 32 bytes each; a rest that is no whole record is left out.
        ///
        /// - Throws: ENOSPC and the like; the file then ends where it had room.
        package func write(_ records: UnsafeRawBufferPointer) throws(SystemError) {
            var rest = UnsafeRawBufferPointer(rebasing: records[..<(records.count / Record.size * Record.size)])
            told += rest.count / Record.size
            while !rest.isEmpty {
                guard !isFull, !isFinished else { return }
                // Not all at once: memory, and the limit.
                let part = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.piece))
                encoder.records(part)
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
                try putIfLarge()
            }
        }

        /// What was told so far is in the file when it returns: who reads it now sees all of it.
        package func flush() throws(SystemError) {
            guard !isFinished else { return }
            encoder.flush()
            try put()
        }

        /// The last pieces, and what a file ends with. Nothing can be written afterwards. Once more is nothing.
        ///
        /// - Parameters:
        ///   - title: what was recorded, if that is known better now; only a page tells it.
        ///   - dropped: how many records a ring lost meanwhile.
        ///   - lost: how many were not written for other reasons than the limit.
        package func finish(title: String? = nil, dropped: Int = 0, lost: Int = 0) throws(SystemError) {
            guard !isFinished else { return }
            encoder.flush()
            try put()
            isFinished = true
            about.dropped += dropped
            about.title = title?.shownInLine ?? about.title
            encoder.end(about, lost: lost + told - kept)
            try put(last: true)
            try output?.putInPlace()
        }

        private func putIfLarge() throws(SystemError) {
            if encoder.bytes.count >= Self.piece { try put() }
        }

        private func put(last: Bool = false) throws(SystemError) {
            defer { encoder.bytes.removeAll(keepingCapacity: true) }
            guard !encoder.bytes.isEmpty else { return }
            guard last || written + encoder.bytes.count + Self.reserve <= limit else {
                isFull = true
                return
            }
            let error = encoder.bytes.withUnsafeBytes { Descriptor.write($0, to: file.number) }
            guard error == 0 else {
                isFull = true
                throw SystemError("write", path, errno: error)
            }
            written += encoder.bytes.count
            if !last { kept = told - encoder.held }
        }
    }
}
