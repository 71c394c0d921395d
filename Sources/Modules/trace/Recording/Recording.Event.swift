extension Recording {
    /// An event of a recording, in the same form for every file format.
    struct Event {
        enum Phase {
            case begin, end, whole, instant
            /// The beginning and the end of a lasting item.
            case opens, closes, belongs
            /// An arrow's tail and its head.
            case send, receive
            /// A message between processes, over a network, leaves and arrives.
            case departs, arrives
            /// The number of records that are missing.
            case loss
        }

        var phase: Phase
        var time: UInt64 = 0
        /// The loop: a process and a thread in it, or the number of a track.
        var track: Track
        var category = ""
        var name = ""
        var place = ""
        var due: UInt64?
        var duration: UInt64 = 0
        var missed: UInt64 = 0
        var waits = false
        /// Empty if the file does not contain it.
        var waitsIn = ""
        var failed = false
        var task: UInt64 = 0
        /// The number of a message between processes, or of another flow.
        var flow: UInt64 = 0
        /// The sender's clock when a message left; 0 if it is not known.
        var sentAt: UInt64 = 0
        var result: UInt64 = 0
        var until: UInt64 = 0
        var reason: UInt64 = 0
        var waker: Name?
        var bytes: UInt64 = 0
        var status: UInt64 = 0
        /// The rows of a call of a database, and the microseconds for which it waited for a connection.
        var rows: UInt64 = 0
        var waited: UInt64 = 0
        var out = false
        var step: UInt64 = 0
        /// Nanoseconds.
        var delay: UInt64 = 0
        var dropped: UInt64 = 0
        var lost: UInt64 = 0

        init(_ phase: Phase, _ track: Track) {
            self.phase = phase
            self.track = track
        }

        struct Track: Hashable {
            var process: Int64
            var number: UInt64
        }
    }
}
