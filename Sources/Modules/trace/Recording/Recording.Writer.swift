internal import Glibc
package import Linux

extension Recording {
    /// Writes a recording to a file as it is made. Only the current piece stays in memory.
    ///
    /// A name or a thread must be written before the first record with its number. A number keeps its meaning in the
    /// whole recording. Records of one thread come in order; those of different threads may come in any order. Not
    /// thread-safe: use it from one thread at a time.
    ///
    /// The file contains the number of records that it had no room for: see `isFull`.
    package final class Writer {
        /// The default limit of a file in bytes.
        package static let defaultLimit = 256 << 20
        /// The least useful limit: the page alone takes 50 kB.
        package static let leastLimit = 1 << 20

        package let format: Format
        private let file: Descriptor
        /// nil if the caller has opened the descriptor.
        private var output: OutputFile?
        private let path: String
        private let limit: Int
        private let encoder: any Encoder
        private var about: About
        private var written = 0
        /// The number of received records, and the number of those that are in the file.
        private var told = 0
        private var kept = 0
        private var known: Set<UInt32> = []
        private var isFinished = false

        /// Whether the file has no room for more records. O(1).
        package private(set) var isFull = false

        /// Bytes that are collected before they are written to the file.
        private static let piece = 1 << 17
        /// Bytes that are reserved for the end of a recording.
        private static let reserve = 1 << 12

        /// Writes a file that replaces the one at a path. The ending of the path determines the format. Only the owner
        /// can read the file: it holds names of files and the actions of a script.
        ///
        /// - Parameters:
        ///   - isSeenAtOnce: Whether the path names the new file at once, so that the records of a killed process are
        ///     there. If false, the path names the file when it is finished, and the old file stays if that fails.
        ///   - followsLinks: See `OutputFile`.
        /// - Throws: EINVAL for another ending; the errors of `OutputFile` and write(2).
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

        /// Writes the name of a number, which must not change afterwards. O(1), amortized.
        package func name(_ number: UInt32, _ name: Name) throws(SystemError) {
            guard !isFull, !isFinished, known.insert(number).inserted else { return }
            encoder.name(number, name)
            try putIfLarge()
        }

        /// Returns whether the number has a name.
        package func knows(_ number: UInt32) -> Bool { known.contains(number) }

        /// Names a loop, in words such as "main" or "worker 2".
        ///
        /// - Parameter process: See `Encoder.thread`.
        package func thread(_ number: UInt16, _ name: String, of process: Int? = nil) throws(SystemError) {
            guard !isFull, !isFinished else { return }
            encoder.thread(number, name.shownInLine, of: process)
            try putIfLarge()
        }

        /// Writes records, 32 bytes each; ignores an incomplete one at the end.
        ///
        /// - Throws: An error such as ENOSPC; the file then ends with what was written before.
        package func write(_ records: UnsafeRawBufferPointer) throws(SystemError) {
            var rest = UnsafeRawBufferPointer(rebasing: records[..<(records.count / Record.size * Record.size)])
            told += rest.count / Record.size
            while !rest.isEmpty {
                guard !isFull, !isFinished else { return }
                // The records are written in parts, so that they need little memory and the file stays below its limit.
                let part = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.piece))
                encoder.records(part)
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
                try putIfLarge()
            }
        }

        /// Writes everything received so far to the file, so that readers see it.
        package func flush() throws(SystemError) {
            guard !isFinished else { return }
            encoder.flush()
            try put()
        }

        /// Writes the last pieces and the end of the file. The writer cannot be used afterwards. Does nothing the
        /// second time.
        ///
        /// - Parameters:
        ///   - title: A better title, if it is known now; only a page contains it.
        ///   - dropped: The number of records that a ring has lost.
        ///   - lost: The number of records that were not written for other reasons than the limit.
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
