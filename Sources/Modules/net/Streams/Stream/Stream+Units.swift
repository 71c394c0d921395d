internal import CStreams
internal import Glibc

// Units of several parts: their descriptions, and how they are found.

extension Stream {
    /// The text that ends `Unit.until`, or follows the bytes of `Unit.exactlyAnd`, and is taken with them.
    public final class Ending: Equatable, Sendable {
        /// Empty: any bytes.
        public let text: [UInt8]
        public let count: Int

        public init(text: [UInt8]) {
            self.text = text
            count = text.count
        }

        public init(count: Int) {
            text = []
            self.count = count
        }

        public static func == (a: Ending, b: Ending) -> Bool { a === b || a.text == b.text && a.count == b.count }

        /// Whether the delimiter consists of these bytes only.
        public func isText(_ bytes: UnsafeRawBufferPointer) -> Bool {
            guard text.count == bytes.count, let start = bytes.baseAddress else { return false }
            return text.withUnsafeBytes { $0.baseAddress.map { memcmp($0, start, bytes.count) == 0 } ?? false }
        }
    }

    /// The delimiters of `Unit.untilOneOf`, none of which is empty.
    public final class Ends: Equatable, Sendable {
        public let texts: [[UInt8]]
        let longest: Int

        public init(_ texts: [[UInt8]]) {
            self.texts = texts
            longest = texts.map(\.count).max() ?? 1
        }

        public static func == (a: Ends, b: Ends) -> Bool { a === b || a.texts == b.texts }
    }

    /// The head of `Unit.frame`, in which an integer of up to 8 bytes is the length of the body.
    public struct FrameHead: Equatable, Sendable {
        private let parts: UInt32
        private let adjust: Int32

        /// - Parameters:
        ///   - size: Bytes of the head; at most 1024.
        ///   - offset: The place of the length field in the head; `width`: its bytes.
        ///   - adjust: Added to the length that was read.
        public init(size: Int, offset: Int, width: Int, isBigEndian: Bool, isSigned: Bool, adjust: Int32) {
            let flags: UInt32 = (isBigEndian ? 1 : 0) | (isSigned ? 2 : 0)
            parts = flags | UInt32(width & 15) << 2 | UInt32(offset & 2047) << 6 | UInt32(size & 2047) << 17
            self.adjust = adjust
        }

        public var size: Int { Int(parts >> 17) }

        /// The length of the body; below zero if the head has no useful length. The caller has checked that all bytes
        /// of the head are there.
        func length(_ bytes: UnsafeRawBufferPointer) -> Int {
            let width = Int(parts >> 2 & 15)
            let offset = Int(parts >> 6 & 2047)
            var number: UInt64 = 0
            if width == 4 {
                let four = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
                number = UInt64(parts & 1 != 0 ? UInt32(bigEndian: four) : UInt32(littleEndian: four))
            } else {
                for i in 0..<width {
                    number = number << 8 | UInt64(bytes[offset + (parts & 1 != 0 ? i : width - 1 - i)])
                }
            }
            if parts & 2 != 0, width < 8 {
                let sign = UInt64(1) << UInt64(width * 8 - 1)
                number = (number ^ sign) &- sign
            }
            let (length, overflow) = Int(bitPattern: UInt(number)).addingReportingOverflow(Int(adjust))
            return overflow ? (adjust > 0 ? .max : .min) : length
        }
    }

    // MARK: Finding them

    /// The number of bytes of the unit, if all have arrived; else nil. Returns a failure if the unit is invalid.
    func matchFrame(_ head: FrameHead, _ bytes: UnsafeRawBufferPointer, _ limit: Int) -> (Int?, StreamFailure?) {
        guard bytes.count >= head.size else { return (nil, nil) }
        let length = head.length(bytes)
        if length < 0 { return (nil, StreamFailure(plain: "EBADMSG", "frame of \(length) bytes, a negative length")) }
        if length > limit {
            return (nil, StreamFailure(plain: "EMSGSIZE", "frame of \(length) bytes, longer than \(limit)"))
        }
        return (bytes.count - head.size >= length ? head.size + length : nil, nil)
    }

    /// Whether the bytes after the first `count` are those of the ending. The caller has checked that they have
    /// arrived.
    static func isFollowed(_ bytes: UnsafeRawBufferPointer, _ count: Int, by ending: Ending) -> Bool {
        guard !ending.text.isEmpty else { return true }
        return ending.isText(UnsafeRawBufferPointer(rebasing: bytes[count..<count + ending.count]))
    }

    static func notFollowed(_ bytes: UnsafeRawBufferPointer, _ count: Int, by ending: Ending) -> StreamFailure {
        let found = Array(bytes[count..<count + ending.count])
        return StreamFailure(
            plain: "EBADMSG", "\(quoted(ending.text)) expected after \(count) bytes, found \(quoted(found))")
    }

    /// A text in quotes as programs write it, at most its first 32 bytes.
    private static func quoted(_ bytes: [UInt8]) -> String {
        var text = "\""
        for byte in bytes.prefix(32) {
            switch byte {
            case 10: text += "\\n"
            case 13: text += "\\r"
            case 9: text += "\\t"
            case 34, 92: text += "\\" + String(UnicodeScalar(byte))
            case 32..<127: text += String(UnicodeScalar(byte))
            default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }
        return text + (bytes.count > 32 ? "\"…" : "\"")
    }

    /// Finds the delimiter that is complete first; if several are, the first one in the list. Returns the place at
    /// which it begins, and its number.
    static func find(
        _ ends: Ends, in bytes: UnsafeRawBufferPointer, from searched: Int
    ) -> (place: Int, which: Int)? {
        guard let start = bytes.baseAddress else { return nil }
        var found: (place: Int, which: Int)?
        var count = bytes.count
        for (which, text) in ends.texts.enumerated() {
            let from = max(0, min(searched, count) - (text.count - 1))
            let place = text.withUnsafeBytes { net_find(start + from, count - from, $0.baseAddress, $0.count) }
            guard let place else { continue }
            let offset = place - start
            // A further delimiter is the first one only if it ends before this one.
            let isFirst = found.map { offset + text.count < $0.place + ends.texts[$0.which].count } ?? true
            if isFirst { found = (offset, which) }
            count = min(count, offset + text.count)
        }
        return found
    }

    /// The number of bytes that a unit of several parts has in all, as far as that is known.
    func whole(_ unit: Unit) -> Int? {
        switch unit {
        case .exactly(let n), .peek(let n): n
        case .exactlyAnd(let n, let ending): n.addingSaturating(ending.count)
        case .frame(let head) where input.count < head.size: head.size
        case .frame(let head): head.size.addingSaturating(max(0, head.length(input.bytes)))
        default: nil
        }
    }
}

extension Int {
    fileprivate func addingSaturating(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
