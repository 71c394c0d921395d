extension RunLoop {
    /// What sources, ports and observers have in common: they are in modes, and can be invalidated.
    ///
    /// Not thread-safe unless a subclass says so: use an item on the thread of its loop.
    public class Item {
        /// For descriptions; a message port's is what others find it by.
        public internal(set) final var name: String
        /// Lower ones come first.
        public let order: Int
        /// The modes it is in. An observer or a port is in modes of one loop only; a custom source may be in several.
        /// Changed on the thread of the loop concerned; a custom source guards it with its own lock.
        final var modes: [ModeState] = []
        public internal(set) final var isValid = true

        /// For the owner's use.
        public final var attachment: AnyObject?
        /// Called each time it has left its last mode, and no loop holds it any more.
        public final var abandoned: (() -> Void)?

        init(name: String, order: Int) {
            self.name = name
            self.order = order
        }

        /// The loop it is in; for a custom source in several loops, the first.
        public var loop: RunLoop? { modes.first?.loop }

        /// The modes it is in, in the order in which it entered them.
        public var modeNames: [Mode] { modes.map(\.name) }

        /// Takes the item out of every mode. Its callback never runs afterwards. CFRunLoopSourceInvalidate and its kin.
        /// Calling it again does nothing.
        public func invalidate() {
            guard isValid else { return }
            isValid = false
            for mode in modes { mode.loop.remove(self, from: mode) }
            forgetCommonModes()
            retire()
        }

        /// Of which loops it is a common item.
        final var commonIn: [Unmanaged<RunLoop>] = []

        final func forgetCommonModes() {
            // A loop that goes takes itself off this list.
            for loop in commonIn { loop.takeUnretainedValue().forgetCommonItem(self) }
        }

        /// Whether a loop other than this one holds it, and so it cannot be added here.
        func belongsElsewhere(than loop: RunLoop) -> Bool {
            modes.contains { $0.loop !== loop } || commonIn.contains { $0.takeUnretainedValue() !== loop }
        }

        /// Called once it is in the mode's lists, or no longer in them.
        func didEnter(_ mode: ModeState) {}
        func didLeave(_ mode: ModeState) {}

        /// Called once, when it is no longer valid and in no mode.
        func retire() {}
    }

    /// An item whose events queue up, one handled a pass: Apple's version 1 source.
    public class PortBase: Item {
        /// The loop's `dispatches` when it was found ready: while that is the same, it surely still is.
        final var foundAt: UInt64 = 0
        /// In how many modes' ready queues it is.
        final var queues = 0

        /// Whether there is still something to deliver.
        func isStillReady() -> Bool { false }

        /// It serves another item, whose modes are its own, and does not count as an event of a run's.
        final var isInner = false

        /// Whether that is a system call.
        var asksKernel: Bool { false }

        /// The same, asked after a callback; `queue` is what comes next. A port that has to ask the kernel can ask for the
        /// first of them, too, and note in `foundAt` that it is ready, or take it out.
        func isStillReady(inFrontOf queue: borrowing ReadyQueue, _ dispatches: UInt64) -> Bool { isStillReady() }

        /// Calls the callback.
        func deliver() {}
    }
}
