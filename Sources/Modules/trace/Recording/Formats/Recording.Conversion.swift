internal import Glibc
package import Linux

extension Recording {
    /// Converts recordings to another file.
    package enum Conversion {
        package enum Failure: Error {
            /// A file cannot be read, or the new one cannot be written.
            case refused(SystemError)
            /// The bytes are not a recording; the text has the place and the problem.
            case malformed(String)
            /// The recording has the format with this number, which this program does not know.
            case unknown(format: Int64)
        }

        /// The number of the format that recordings begin with: see docs/versions.md.
        static let format: Int64 = 2
        static let formerFormat: Int64 = 1

        /// - Parameter format: nil for files of other programs, and of releases before there were numbers.
        static func check(format: Int64?) throws(Failure) {
            if let format, format != Self.format, format != formerFormat { throw .unknown(format: format) }
        }

        /// A problem with a file; its path comes first.
        package struct Problem: Error, CustomStringConvertible {
            package let description: String
        }

        /// Reads recordings in Perfetto's format or as Chrome's events, and writes one with all of their content. If a
        /// file ends in the middle of an event, the events before it count. O(n); the files are mapped, not copied.
        ///
        /// - Parameters:
        ///   - titles: The names of the processes, one for each path; if empty, the names in the recordings are used.
        ///   - limit: See `Writer`.
        /// - Throws: The problem and its file. The new file is made only after the first event was parsed.
        package static func convert(
            _ paths: [String], to target: String, titles: [String] = [], limit: Int = Writer.defaultLimit
        ) throws(Problem) {
            if let path = paths.first(where: { isSameFile($0, target) }) {
                throw Problem(
                    description: "'\(path)' cannot be read and written at once; name another file than '\(target)'")
            }
            let retelling = Retelling { about throws(SystemError) in
                try Writer(path: target, about: about, limit: limit)
            }
            if paths.count > 1 {
                retelling.survey(true)
                try read(paths, titles, retelling)
                retelling.survey(false)
            }
            try read(paths, titles, retelling)
            do throws(SystemError) {
                if paths.count > 1 { try retelling.endFile() }
                try retelling.finish()
            } catch { throw Problem(description: "\(error)") }
        }

        private static func read(
            _ paths: [String], _ titles: [String], _ retelling: Retelling
        ) throws(Problem) {
            for (place, path) in paths.enumerated() {
                retelling.title = place < titles.count ? titles[place] : nil
                do throws(Failure) {
                    if place > 0 { try endFile(retelling) }
                    try mapped(path) { bytes throws(Failure) in try read(bytes, path, retelling) }
                } catch {
                    switch error {
                    case .refused(let error): throw Problem(description: "\(error)")
                    case .malformed(let problem): throw Problem(description: "\(path) is not a recording: \(problem)")
                    case .unknown(let number):
                        let known = "this rlhost reads \(formerFormat) to \(format)"
                        throw Problem(description: "\(path): recording format \(number); \(known)")
                    }
                }
            }
        }

        private static func read(
            _ bytes: UnsafeRawBufferPointer, _ path: String, _ retelling: Retelling
        ) throws(Failure) {
            guard bytes.first != UInt8(ascii: "<") else {
                throw .malformed("it is a page; pages are made from files that end in .pftrace or .json")
            }
            // A packet begins with a byte that is a line break in text, so blanks before JSON are not skipped.
            let isText = bytes.first == UInt8(ascii: "[") || bytes.first == UInt8(ascii: "{")
            if isText || Format(path: path) == .events {
                var reader = EventsReader(bytes, retelling)
                try reader.read()
            } else {
                var reader = PerfettoReader(bytes, retelling)
                try reader.read()
            }
        }

        private static func endFile(_ retelling: Retelling) throws(Failure) {
            do throws(SystemError) { try retelling.endFile() } catch { throw .refused(error) }
        }

        /// Returns whether two paths lead to the same existing file.
        package static func isSameFile(_ first: String, _ second: String) -> Bool {
            var (one, other) = (stat(), stat())
            return stat(first, &one) == 0 && stat(second, &other) == 0 && one.st_dev == other.st_dev
                && one.st_ino == other.st_ino && one.st_mode & S_IFMT == S_IFREG
        }

        private static func mapped(
            _ path: String, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Void
        ) throws(Failure) {
            let file: Descriptor
            var status = stat()
            do throws(SystemError) {
                // Opening a pipe must not wait for a writer.
                file = try Descriptor(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open", path)
                guard fstat(file.number, &status) == 0 else { throw SystemError("fstat", path) }
                guard status.st_mode & S_IFMT == S_IFREG else {
                    throw SystemError("read", path, errno: EINVAL, reason: "a recording is a file, and \(path) is none")
                }
            } catch { throw .refused(error) }
            guard status.st_size > 0 else { throw .malformed("it is empty") }
            let count = Int(status.st_size)
            guard let start = mmap(nil, count, PROT_READ, MAP_PRIVATE, file.number, 0), start != MAP_FAILED else {
                throw .refused(SystemError("mmap", path))
            }
            defer { munmap(start, count) }
            try body(UnsafeRawBufferPointer(start: start, count: count))
        }
    }
}
