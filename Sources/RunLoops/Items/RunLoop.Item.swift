extension RunLoop {
    /// A host's side of its items: one object for any number of them, which it tells apart by their `context`. It costs no
    /// memory per item, as closures do. Called on the thread of the item's loop, except `forget`.
    open class ItemOwner {
        public init() {}
        /// A descriptor of the port's is ready.
        open func deliver(_ events: FDPort.Events, of port: FDPort) {}
        /// The item has left its last mode, and no loop holds it any more.
        open func letGo(of item: Item) {}
        /// The item is gone. On any thread.
        open func forget(_ context: Int) {}
    }

    /// What sources, ports and observers have in common: they are in modes, and can be invalidated.
    ///
    /// Not thread-safe unless a subclass says so: use an item on the thread of its loop.
    open class Item {
        /// For descriptions; a message port's is what others find it by.
        public internal(set) final var name: String
        /// Lower ones come first.
        public final let order: Int
        public final let owner: ItemOwner?
        /// For the owner's use. If it is an address, what is there is fetched early.
        public final var context = 0
        /// The modes it is in. An observer or a port is in modes of one loop only; a custom source may be in several.
        /// Changed on the thread of the loop concerned; a custom source guards it with its own lock.
        final var modes: [ModeState] = []
        /// Of which loops it is a common item.
        final var commonIn: [Unmanaged<RunLoop>] = []
        public internal(set) final var isValid = true
        /// Off: a loop serves it while it runs, but does not run for its sake. Observers never keep a loop running. A custom
        /// source that is in several loops: set it before it is added.
        public final var keepsAlive = true {
            didSet {
                guard keepsAlive != oldValue else { return }
                for mode in modes { mode.noteKeepsAlive(self) }
                didChangeKeepsAlive()
            }
        }

        init(name: String, order: Int, owner: ItemOwner?) {
            self.name = name
            self.order = order
            self.owner = owner
        }

        deinit { owner?.forget(context) }

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

        /// `keepsAlive` is another.
        func didChangeKeepsAlive() {}
    }

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
