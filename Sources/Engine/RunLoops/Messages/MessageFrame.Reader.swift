internal import CLinux

extension MessageFrame {
    /// Assembles frames from the pieces that a connection delivers.
    ///
    /// The reader checks the head of a frame before it allocates memory, so a frame that announces a gigabyte is
    /// refused without allocating.
    struct Reader {
        enum Input: Equatable {
            case bytes
            case nothing
            case end
            case failed(errno: Int32)
        }

        /// Bytes of an incomplete frame. Usually empty: few of many connections are in the middle of a frame.
        private var buffer: [UInt8] = []
        private var start = 0
        private var end: Int { buffer.count }
        /// The number of bytes to read with one system call: enough for hundreds of small frames.
        private static let usual = 1 << 16
        /// The largest buffer, in bytes, that is kept for further frames.
        private static let kept = 1 << 12

        /// The number of bytes of an incomplete frame.
        var leftover: Int { end - start }

        /// Reads once. Before the next call, call `next` until it returns nil.
        mutating func read(_ fd: Int32) -> Input {
            if start == buffer.count {
                if buffer.capacity > Self.kept { buffer = [] } else { buffer.removeAll(keepingCapacity: true) }
                start = 0
            } else if start > 0 {
                // Only part of a frame is left: move it to the beginning, so that the rest fits after it.
                buffer.removeSubrange(..<start)
                start = 0
            }
            // The buffer grows only with the data that arrives: a frame that merely announces 16 MB takes no such
            // memory.
            return withUnsafeTemporaryAllocation(byteCount: Self.usual, alignment: 1) { piece in
                let count = linux_receive(fd, piece.baseAddress, piece.count)
                guard count > 0 else {
                    guard count < 0 else { return .end }
                    let error = linux_errno()
                    return error == EAGAIN || error == EWOULDBLOCK ? .nothing : .failed(errno: error)
                }
                buffer.append(contentsOf: piece[..<Int(count)])
                return .bytes
            }
        }

        /// Returns the next complete frame; nil if there is none.
        mutating func next() throws(Malformed) -> MessageFrame? {
            guard end - start >= headSize else { return nil }
            guard buffer[start] == 0x52, buffer[start + 1] == 0x4C else {
                throw Malformed(reason: "a frame does not begin with \"RL\"")
            }
            guard buffer[start + 2] == version else {
                throw Malformed(reason: "message format \(buffer[start + 2]); this rlhost reads \(version)")
            }
            guard let kind = Kind(rawValue: buffer[start + 3]) else {
                throw Malformed(reason: "there is no frame of kind \(buffer[start + 3])")
            }
            guard length <= longest else {
                throw Malformed(reason: "\(length) bytes of data are announced, and \(longest) are allowed")
            }
            guard number(20, UInt32.self) == 0 else {
                throw Malformed(reason: "the last four bytes of a head are not 0")
            }
            guard kind != .done || length == 0 else { throw Malformed(reason: "\"done\" has no data") }
            let size = headSize + length
            guard end - start >= size else { return nil }
            defer { start += size }
            return MessageFrame(
                kind: kind, conversation: number(8, UInt64.self), id: Int32(bitPattern: number(16, UInt32.self)),
                data: length == 0 ? [] : Array(buffer[(start + headSize)..<(start + size)]))
        }

        // Loads the number with one instruction: in a debug build, methods of collections would copy byte by byte.
        private var length: Int { Int(number(4, UInt32.self)) }

        private func number<Number: FixedWidthInteger>(_ offset: Int, _: Number.Type) -> Number {
            buffer.withUnsafeBytes {
                Number(bigEndian: $0.loadUnaligned(fromByteOffset: start + offset, as: Number.self))
            }
        }
    }
}
