internal import Synchronization

extension RunLoop {
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
        /// For recordings; 0 before it has been in one.
        package final var label: UInt32 = 0
        /// The number of the connection that it is, in recordings; 0: none.
        package final var lasting: UInt32 = 0
        /// The modes it is in. An observer or a port is in modes of one loop only; a custom source may be in several.
        /// Changed on the thread of the loop concerned; a custom source guards it with its own lock.
        final var modes: [ModeState] = []
        /// Of which loops it is a common item.
        final var commonIn: [Unmanaged<RunLoop>] = []
        /// Whether it still calls back. Any thread.
        public internal(set) final var isValid: Bool {
            get { validity.load(ordering: .acquiring) }
            set { validity.store(newValue, ordering: .releasing) }
        }
        private final let validity = Atomic<Bool>(true)
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
        public final var loop: RunLoop? { enteredModes.first?.loop }

        /// The modes it is in, in the order in which it entered them.
        public final var modeNames: [Mode] { enteredModes.map(\.name) }

        /// `modes`, on any thread if the item may be used there.
        var enteredModes: [ModeState] { modes }

        /// Whether it is in a mode.
        final func isIn(_ mode: ModeState) -> Bool { enteredModes.contains { $0 === mode } }

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
}
