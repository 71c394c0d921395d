extension Recording {
    /// One thing that happened: 32 bytes, which lie in memory, and in the chunks of a page, as they are here, little endian.
    package struct Record: Equatable, Sendable {
        /// Nanoseconds of CLOCK_MONOTONIC, or of a virtual clock.
        package var time: UInt64
        package var kind: UInt8
        package var flags: UInt8
        /// A number for the loop that it happened in.
        package var thread: UInt16
        /// The number of a name; 0: none.
        package var object: UInt32
        /// What it means depends on the kind.
        package var a: UInt64
        /// Joins a send with what it has woken; 0: nothing.
        package var flow: UInt32
        /// Joins the pieces of a task; 0: none.
        package var task: UInt32

        package init(
            time: UInt64, kind: Kind, flags: UInt8 = 0, thread: UInt16 = 0, object: UInt32 = 0, a: UInt64 = 0,
            flow: UInt32 = 0, task: UInt32 = 0
        ) {
            self.time = time
            self.kind = kind.rawValue
            self.flags = flags
            self.thread = thread
            self.object = object
            self.a = a
            self.flow = flow
            self.task = task
        }

        package enum Kind: UInt8, Sendable {
            /// A callback begins; `a`: when it was due, or 0.
            case begin = 1
            /// It ends; `a`: how many intervals were missed. See `Flags`.
            case end
            /// A loop runs in a mode, `object`.
            case run
            /// `a`: 1 finished, 2 stopped, 3 timed out, 4 handled a source.
            case runEnd
            case pass, passEnd
            /// `a`: until when.
            case sleep
            /// `a`: why, see `Wake`; `object`: what woke it.
            case wake
            /// Something is sent that `flow` names, and arrives there.
            case out, `in`
            /// A moment that a script has marked.
            case mark
            /// A callback that is told as a whole: it began at `time` and took `a` nanoseconds.
            case whole
            /// `a` bytes of a stream.
            case bytes
            /// The pass comes to the step `a` of the chapter's ten, where observers are.
            case step
        }

        /// Flags of `end`, and of `bytes`.
        package enum Flags {
            /// The callback waits, and will go on in another piece.
            package static let waits: UInt8 = 1
            package static let failed: UInt8 = 2
            /// Bytes that went out.
            package static let out: UInt8 = 1
        }

        /// Why a loop woke.
        package enum Wake: UInt64, Sendable {
            case timer = 1, descriptor, wakeUp, signal, timeOver
        }

        /// Bytes of one record.
        package static let size = 32

        /// Of bytes that need not be aligned.
        package init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
            time = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            kind = bytes[offset + 8]
            flags = bytes[offset + 9]
            thread = UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 10, as: UInt16.self))
            object = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 12, as: UInt32.self))
            a = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 16, as: UInt64.self))
            flow = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 24, as: UInt32.self))
            task = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 28, as: UInt32.self))
        }
    }
}
