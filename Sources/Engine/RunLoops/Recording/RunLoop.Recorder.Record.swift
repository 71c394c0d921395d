extension RunLoop.Recorder {
    /// One thing that happened, in 32 bytes, which lie in memory, and in recordings, as they are here, little endian.
    ///
    /// In the ring, what usually goes together is one record: a pass and the first thing in it, and a callback with its end. What is
    /// sent in a callback comes before that then. `Translation` takes them apart.
    @usableFromInline
    package struct Record: BitwiseCopyable, Equatable, Sendable {
        /// Nanoseconds of the loop's clock; in the ring, ticks of the recorder's.
        package var time: UInt64
        package var kind: UInt8
        package var flags: UInt8 = 0
        /// The recorder's number.
        package var thread: UInt16 = 0
        /// A label, see `RunLoop.Recorder.Title`; 0: none.
        @usableFromInline package var object: UInt32 = 0
        /// What it means depends on the kind.
        package var a: UInt64 = 0
        /// Joins a send with what it has brought about; 0: nothing.
        package var flow: UInt32 = 0
        /// Joins the pieces of a task; 0: none. In the ring it has `taskBits`, and above them, where it waits, a number of `WaitNames`;
        /// where nothing but ones are above them, it is not one's piece unless it should turn out to wait.
        @usableFromInline package var task: UInt32 = 0

        static let taskBits: UInt32 = 22
        @inlinable package static var tasks: UInt32 { @inline(__always) get { 1 << 22 - 1 } }
        /// No number of a name is as great.
        @inlinable package static var unlessItWaits: UInt32 { @inline(__always) get { ~tasks } }

        package init(
            _ kind: Kind, _ time: UInt64, flags: UInt8 = 0, object: UInt32 = 0, a: UInt64 = 0, flow: UInt32 = 0,
            task: UInt32 = 0
        ) {
            self.time = time
            self.kind = kind.rawValue
            self.flags = flags
            self.object = object
            self.a = a
            self.flow = flow
            self.task = task
        }

        /// One of a callback that has begun, as `begin` writes it: in few stores.
        ///
        /// - Parameter word: the kind, and the pass that it begins, if any: see `word`.
        @inline(__always)
        mutating func begin(_ word: UInt32, _ time: UInt64, _ object: UInt32, a: UInt64, flow: UInt32) {
            withUnsafeMutableBytes(of: &self) { bytes in
                bytes.storeBytes(of: time, toByteOffset: 0, as: UInt64.self)
                bytes.storeBytes(of: word, toByteOffset: 8, as: UInt32.self)
                bytes.storeBytes(of: object, toByteOffset: 12, as: UInt32.self)
                bytes.storeBytes(of: a, toByteOffset: 16, as: UInt64.self)
                bytes.storeBytes(of: UInt64(flow), toByteOffset: 24, as: UInt64.self)
            }
        }

        @inline(__always)
        mutating func setWord(_ word: UInt32) {
            withUnsafeMutableBytes(of: &self) { $0.storeBytes(of: word, toByteOffset: 8, as: UInt32.self) }
        }

        /// What is added to the kind, where they stand in memory, in the record of a callback that begins a pass in this mode.
        @inline(__always)
        static func word(passIn mode: UInt32) -> UInt32 { mode << 16 | UInt32(Flags.beginsPass) << 8 }

        /// In the ring: of `due` it is `flow`, of others the lower half of `a`.
        @inline(__always)
        mutating func setLength(_ length: UInt32, isDue: Bool) {
            withUnsafeMutableBytes(of: &self) {
                $0.storeBytes(of: length, toByteOffset: isDue ? 24 : 16, as: UInt32.self)
            }
        }

        /// The upper half of `a`, of which nothing is set yet.
        @inline(__always)
        mutating func setSends(_ sent: UInt32) {
            withUnsafeMutableBytes(of: &self) { $0.storeBytes(of: sent, toByteOffset: 20, as: UInt32.self) }
            flags |= Flags.sends
        }

        /// What a callback waits in: a label, or 0. Not in the ring.
        package var waitsIn: UInt32 {
            kind == Kind.end.rawValue && flags & Flags.waits != 0 ? flow : 0
        }
    }

    package enum Kind: UInt8, Sendable {
        /// A callback; `a`: when it was due, or 0.
        case begin = 1
        /// `a`: how many intervals were missed. `object`: what `begin` said. `flow`: what it waits in, see `waitsIn`; in the ring, `task`
        /// says so. See `Flags`.
        case end
        /// A loop runs in a mode, `object`.
        case run
        /// `a`: a `RunResult`. `object`: the mode.
        case runEnd
        case pass, passEnd
        /// `a`: until when, or 0.
        case sleep
        /// `a`: a `Wake`; `object`: what woke it.
        case wake
        /// Something is sent that `flow` names, and arrives there. In the ring, `a` is for how many in a row, numbered one behind the
        /// other.
        case out, `in`
        /// A moment that a script has marked.
        case mark
        /// A callback that took `a`, and in which nothing else was recorded. In the ring that is the lower half of `a`; the upper one is
        /// how much earlier the pass had begun, if this begins one, or the flow of what it has sent: see `Flags.sends`.
        case whole
        /// `a`: how many went through a stream, `object`. `flow`: the connection, see `opens`; 0: none.
        case bytes
        /// `a`: which of the chapter's ten steps, where observers are.
        case step
        /// In the ring only: a callback that was due at `a`. `flow` is what it took.
        case due
        /// Something begins, and ends, that lasts longer than a callback, among any number of others: a connection, a program, a request
        /// to a server. `flow`: its number; `a`, of its end: what it came to, such as a status.
        case opens, closes
        /// The loop has ended: nothing comes behind it, and its time does not count any more.
        case ended
        /// For `a` nanoseconds of the callback that has just ended, that of `object`, its thread waited for a processor.
        case delayed
        /// What lasts under the number `flow` is one of many that `object` stands for: a request of a route.
        case belongs
    }

    /// Of `end`, of `closes`, and of `bytes`.
    package enum Flags {
        /// A callback waits, and goes on in another piece.
        package static let waits: UInt8 = 1
        /// Also of what `closes`.
        package static let failed: UInt8 = 2
        /// Bytes that went out.
        package static let out: UInt8 = 1
        /// In the ring only: a callback has sent something to its own loop, whose flow stands in the upper half of `a`.
        static let sends: UInt8 = 32
        /// In the ring only: of something that is sent in a callback whose record comes behind.
        static let inside: UInt8 = 64
        /// In the ring only: the first thing in a pass; its mode is in `thread`. Of a sleep, the mode is in `object`, and `flow` says
        /// how much earlier the pass had begun.
        static let beginsPass: UInt8 = 128
    }

    /// Why a loop woke.
    package enum Wake: UInt64, Sendable {
        case timer = 1, descriptor, wakeUp, signal, timeOver
    }
}
