extension RunLoop {
    /// An item whose events queue up, one handled a pass: Apple's version 1 source.
    open class PortBase: Item {
        /// It serves another item, whose modes are its own, and does not count as an event of a run's.
        final var isInner = false
        /// It remembers what it was told, and needs no further word of the kernel's.
        final var isEdgeTriggered = false
        /// In how many modes' ready queues it is.
        final var queues: Int32 = 0
        /// When it was added to the common modes; see `RunLoop.lastAge`.
        final var commonAge: UInt64 = 0
        /// The loop's `dispatches` when it was found ready: while that is the same, it surely still is.
        final var foundAt: UInt64 = 0
        /// Its place among its loop's ports, or -1.
        final var place: Int32 = -1

        /// Whether there is still something to deliver.
        func isStillReady() -> Bool { false }

        /// Whether that is a system call.
        var asksKernel: Bool { false }

        /// The same, asked after a callback; `queue` is what comes next. A port that has to ask the kernel can ask for the
        /// first of them, too, and note in `foundAt` that it is ready, or take it out.
        func isStillReady(inFrontOf queue: borrowing ReadyQueue, _ dispatches: UInt64) -> Bool { isStillReady() }

        /// Calls the callback.
        func deliver() {}
    }
}
