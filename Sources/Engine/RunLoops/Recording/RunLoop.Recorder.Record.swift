extension RunLoop.Recorder {
    /// An event in 32 bytes. Memory and recordings use the same layout: little endian.
    ///
    /// In the ring, events that usually go together share a record: a pass with its first event, and a callback with
    /// its end. Sends in a callback then come before its record. `Translation` separates them.
    @usableFromInline
    package struct Record: BitwiseCopyable, Equatable, Sendable {
        /// Nanoseconds of the loop's clock; in the ring, ticks if the recorder uses them.
        package var time: UInt64
        package var kind: UInt8
        package var flags: UInt8 = 0
        /// The number of the recorder.
        package var thread: UInt16 = 0
        /// A label, see `RunLoop.Recorder.Title`; 0 if none.
        @usableFromInline package var object: UInt32 = 0
        /// The meaning depends on the kind.
        package var a: UInt64 = 0
        /// The number that joins a send with its effect; 0 if none.
        package var flow: UInt32 = 0
        /// The number that joins the pieces of a task; 0 if none. In the ring, that number is in the lower `taskBits`
        /// bits. If the task waits, the bits above have a number of `WaitNames`. If these bits are all ones, the record
        /// belongs to the task only if the callback waits later.
        @usableFromInline package var task: UInt32 = 0

        static let taskBits: UInt32 = 22
        @inlinable package static var tasks: UInt32 { @inline(__always) get { 1 << 22 - 1 } }
        /// All bits above `taskBits`. No number of a name is that large.
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

        /// Sets the fields of a callback that begins, with few stores.
        ///
        /// - Parameter word: The kind and the pass that it begins, if any; see `word`.
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

        /// The bits that are added to the kind in the record of a callback that begins a pass in this mode.
        @inline(__always)
        static func word(passIn mode: UInt32) -> UInt32 { mode << 16 | UInt32(Flags.beginsPass) << 8 }

        /// Sets the length of a callback, in the ring: in `flow` for the kind `due`, in the lower half of `a` for other
        /// kinds.
        @inline(__always)
        mutating func setLength(_ length: UInt32, isDue: Bool) {
            withUnsafeMutableBytes(of: &self) {
                $0.storeBytes(of: length, toByteOffset: isDue ? 24 : 16, as: UInt32.self)
            }
        }

        /// Sets the upper half of `a`, which must still be 0, to the flow of a send.
        @inline(__always)
        mutating func setSends(_ sent: UInt32) {
            withUnsafeMutableBytes(of: &self) { $0.storeBytes(of: sent, toByteOffset: 20, as: UInt32.self) }
            flags |= Flags.sends
        }

        /// The sender's clock in a record of the kind `arrives`, in nanoseconds.
        package var sentAt: UInt64 {
            get { UInt64(task) << 32 | UInt64(flow) }
            set { (flow, task) = (UInt32(truncatingIfNeeded: newValue), UInt32(truncatingIfNeeded: newValue >> 32)) }
        }

        /// In a record of the kind `closes` for a database call: the number of rows, and for how many microseconds the
        /// call waited for a connection.
        package var answer: (rows: UInt64, waited: UInt64) { (a & UInt64(UInt32.max), a >> 32) }

        /// Returns the value of `a` for these two numbers, each limited to the largest value that fits.
        package static func answer(rows: UInt64, waited: UInt64) -> UInt64 {
            min(waited, UInt64(Int32.max)) << 32 | min(rows, UInt64(UInt32.max))
        }

        /// The label of the function in which a callback waits; 0 if none. Records in the ring do not use this field.
        package var waitsIn: UInt32 {
            kind == Kind.end.rawValue && flags & Flags.waits != 0 ? flow : 0
        }
    }

    package enum Kind: UInt8, Sendable {
        /// A callback begins. `a`: the date at which it was due, or 0.
        case begin = 1
        /// A callback ends. `a`: the number of missed intervals. `object`: as in `begin`. `flow`: see `waitsIn`; in the
        /// ring, `task` contains this label instead. See `Flags`.
        case end
        /// A run begins in a mode, `object`.
        case run
        /// A run ends. `a`: a `RunResult`. `object`: the mode.
        case runEnd
        case pass, passEnd
        /// The loop begins to sleep. `a`: the date at which it wakes, or 0.
        case sleep
        /// The loop wakes. `a`: a `Wake`. `object`: the label of the thread that woke it.
        case wake
        /// Something is sent, or arrives, with the number `flow`. In the ring, `a` is the count of consecutive sends
        /// that share the record; their numbers are consecutive, too.
        case out, `in`
        /// A moment that a script has marked.
        case mark
        /// A callback that took `a`, and in which nothing else was recorded. In the ring, the lower half of `a` has the
        /// length. The upper half has the time since the pass began, if the callback begins the pass, or the flow of
        /// its send: see `Flags.sends`.
        case whole
        /// `a` bytes went through a stream, `object`. `flow`: the connection, see `opens`; 0 if none.
        case bytes
        /// The loop reaches a step at which observers are called. `a`: the step's number in Apple's list of ten.
        case step
        /// In the ring only: a callback that was due at `a`. `flow`: how long the callback took.
        case due
        /// A long operation begins or ends, such as a connection, a program, or a request to a server. `flow`: its
        /// number. `a`, at the end: the outcome, such as a status; see `answer` for a call of a database.
        case opens, closes
        /// The loop has ended. No record of the loop follows, and later time does not count for it.
        case ended
        /// During the callback that has just ended, the thread waited for a processor for `a` nanoseconds. `object`:
        /// the callback's.
        case delayed
        /// The long operation with the number `flow` belongs to the group `object`, as a request belongs to its route.
        case belongs
        /// A message, `object`, leaves for another process over a network. `a`: its number; see `nextMessage`.
        case departs
        /// Such a message arrives. `a`: its number. `flow` and `task`: the lower and the upper half of the sender's
        /// clock when the message left, in nanoseconds.
        case arrives
    }

    /// Flags of `end`, `closes` and `bytes`; within the ring, other kinds have flags as well.
    package enum Flags {
        /// The callback waits, and continues as another piece.
        package static let waits: UInt8 = 1
        /// The callback or the operation failed.
        package static let failed: UInt8 = 2
        /// The bytes were written, not read.
        package static let out: UInt8 = 1
        /// In the ring only: the upper half of `a` has the flow of a send from the callback to its own loop.
        static let sends: UInt8 = 32
        /// In the ring only: a send in a callback whose record follows.
        static let inside: UInt8 = 64
        /// In the ring only: the first event of a pass, whose mode is in `thread`. In a sleep, `object` has the mode,
        /// and `flow` the time since the pass began.
        static let beginsPass: UInt8 = 128
    }

    /// The reason why a loop woke.
    package enum Wake: UInt64, Sendable {
        case timer = 1, descriptor, wakeUp, signal, timeOver
    }
}
