extension RunLoop {
    /// An item that queues its events, and handles one of them in each pass: a version 1 source.
    open class PortBase: Item {
        /// Whether the port serves another item and shares its modes. Such a port is not listed among a mode's items,
        /// and its events do not end a run with `returnAfterSource`.
        final var isInner = false
        /// Whether the port itself remembers the events that the kernel has reported, so that it needs no second report
        /// of the same events.
        final var isEdgeTriggered = false
        /// The number of ready queues that contain the port.
        final var queues: Int32 = 0
        /// The port's order of addition to the common modes; see `RunLoop.lastAge`.
        final var commonAge: UInt64 = 0
        /// The value of the loop's `dispatches` when the port was found ready. While `dispatches` is unchanged, the
        /// port is still ready.
        final var foundAt: UInt64 = 0
        /// The port's index in the loop's `ports`; -1 if not there.
        final var place: Int32 = -1

        override final var isPort: Bool { true }

        /// Whether the port still has something to deliver.
        func isStillReady() -> Bool { false }

        /// Whether `isStillReady` makes a system call.
        var asksKernel: Bool { false }

        /// Whether the port still has something to deliver, after its callback. A port that must ask the kernel can ask
        /// about the first port of the queue in the same call, and then sets that port's `foundAt` or removes it from
        /// the queue.
        ///
        /// - Parameter queue: The queue of the ports that come after this one.
        func isStillReady(inFrontOf queue: borrowing ReadyQueue, _ dispatches: UInt64) -> Bool { isStillReady() }

        /// Calls the callback.
        func deliver() {}
    }
}
