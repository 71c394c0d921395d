internal import Synchronization

extension RunLoop {
    /// The common part of sources, ports and observers: they are in modes, and can be invalidated.
    ///
    /// Not thread-safe unless a subclass says so: use an item on the thread of its loop.
    open class Item {
        /// A name for descriptions. Other programs find a message port by its name.
        public internal(set) final var name: String
        /// Among items that are ready together, lower orders come first.
        public final let order: Int
        /// The object that gets the item's calls instead of closures; nil if there is none.
        public final let owner: ItemOwner?
        /// A value for the owner's use. If this value is an address, the loop prefetches the memory there.
        public final var context = 0
        /// The item's label in recordings; 0 until it is first recorded.
        package final var label: UInt32 = 0
        /// In recordings: the number of the long operation that the item represents, such as a connection; 0 if none.
        package final var lasting: UInt32 = 0
        /// The modes the item is in. An observer or a port can be in modes of one loop only; a custom source may be in
        /// several loops, and guards this property with its own lock. Changed on the thread of the loop concerned.
        final var modes: [ModeState] = []
        /// The loops to whose common modes the item was added.
        final var commonIn: [Unmanaged<RunLoop>] = []
        /// Whether the item can still call back. Safe on any thread.
        public internal(set) final var isValid: Bool {
            get { validity.load(ordering: .acquiring) }
            set { validity.store(newValue, ordering: .releasing) }
        }
        private final let validity = Atomic<Bool>(true)
        /// Whether the item keeps a run going. If false, a running loop serves the item but does not run for it alone.
        /// Observers never keep a loop running. For a custom source, set it before you add the source to a second loop.
        public final var keepsAlive = true {
            didSet {
                guard keepsAlive != oldValue else { return }
                for mode in modes { mode.noteKeepsAlive(self) }
                didChangeKeepsAlive()
            }
        }
        /// Whether the item stays valid when the host is reset between two tests. The reset then adds the item to the
        /// loop again.
        package final var outlastsTests = false
        /// Whether other code may wait for a result of this item, although the item does not keep a run going. While
        /// the loop's `awaitsAnswer` is true, such items keep a run going, too.
        public final var mayAnswer = false {
            didSet {
                guard mayAnswer != oldValue, !(self is Observer) else { return }
                for mode in enteredModes { mode.noteAnswers(mayAnswer ? 1 : -1) }
            }
        }

        init(name: String, order: Int, owner: ItemOwner?) {
            self.name = name
            self.order = order
            self.owner = owner
        }

        deinit { owner?.forget(context) }

        /// The loop that the item is in; nil if none. For a custom source in several loops, the first.
        public final var loop: RunLoop? { enteredModes.first?.loop }

        /// The modes that the item is in, in the order in which it entered them.
        public final var modeNames: [Mode] { enteredModes.map(\.name) }

        /// Whether the item is a port. A checked cast takes 30 instructions, and each connection would need 15 casts.
        var isPort: Bool { false }
        final var asPort: PortBase? { isPort ? unsafe unsafeDowncast(self, to: PortBase.self) : nil }

        /// The same as `modes`, but safe on any thread if the item's class is.
        var enteredModes: [ModeState] { modes }

        /// Whether the item is in a mode.
        final func isIn(_ mode: ModeState) -> Bool { enteredModes.contains { $0 === mode } }

        /// Takes the item out of every mode, for good: its callback never runs again. Further calls do nothing.
        /// CFRunLoopSourceInvalidate, CFRunLoopObserverInvalidate, CFFileDescriptorInvalidate.
        public func invalidate() {
            guard isValid else { return }
            isValid = false
            for mode in modes { mode.loop.remove(self, from: mode) }
            forgetCommonModes()
            retire()
        }

        final func forgetCommonModes() {
            // A loop that ends removes itself from `commonIn`.
            for loop in commonIn { loop.takeUnretainedValue().forgetCommonItem(self) }
        }

        /// Whether another loop holds the item, so that it cannot be added to this one.
        func belongsElsewhere(than loop: RunLoop) -> Bool {
            modes.contains { $0.loop !== loop } || commonIn.contains { $0.takeUnretainedValue() !== loop }
        }

        /// Called after the item was added to the lists of a mode or removed from them.
        func didEnter(_ mode: ModeState) {}
        func didLeave(_ mode: ModeState) {}

        /// Called once, when the item is invalid and in no mode.
        func retire() {}

        /// Called when `keepsAlive` has changed.
        func didChangeKeepsAlive() {}
    }
}
