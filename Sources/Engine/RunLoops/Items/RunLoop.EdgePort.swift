internal import Glibc
internal import Linux

extension RunLoop {
    /// An edge-triggered port, for owners that track the state of a descriptor themselves, as streams do: it reports
    /// only changes. A version 1 source.
    ///
    /// The loop registers the descriptor with the kernel once for each mode; after that, a port costs no system call
    /// apart from the loop's own wait. A subclass remembers what `note` reported until a system call returns EAGAIN.
    /// Without a descriptor, `signal()` alone gives the port a turn.
    ///
    /// The port keeps the loop alive only while `isAwaited` is true and `isBackground` is not. Not thread-safe: use it
    /// on the thread of its loop.
    open class EdgePort: DescriptorPort {
        /// Whether the port waits for its turn.
        private final var wantsTurn = false

        /// - Parameters:
        ///   - serves: True if the port serves another item, whose modes it shares. Such a port is not listed among the
        ///     items of a mode.
        ///   - name: The name in descriptions and recordings.
        ///   - order: Stored as the item's order.
        ///   - owner: Gets the calls of `ItemOwner`.
        public init(serves: Bool = false, name: String = "", order: Int = 0, owner: ItemOwner? = nil) {
            super.init(-1, name: name, order: order, owner: owner)
            isEdgeTriggered = true
            isInner = serves
            keepsAlive = false
        }

        /// Whether the port keeps the loop running; it never does if `isBackground` is true. Initially false.
        public final var isAwaited = false {
            didSet {
                // Each wait of a stream sets this property twice.
                if isBackground { noteAwaited() } else if keepsAlive != isAwaited { keepsAlive = isAwaited }
            }
        }
        /// Whether the loop serves the port but does not keep running for it. While `isAwaited` is true, the port then
        /// has `mayAnswer`.
        public final var isBackground = false { didSet { noteAwaited() } }

        @inline(never)
        private func noteAwaited() {
            let keeps = isAwaited && !isBackground
            if keeps != keepsAlive { keepsAlive = keeps }
            let answers = isAwaited && isBackground
            if answers != mayAnswer { mayAnswer = answers }
        }

        /// Called when the kernel reports events. The loop is in the middle of its work here, so an override must only
        /// store the events. It returns true if `takeTurn` has work to do.
        open func note(_ events: FDPort.Events) -> Bool { true }

        /// Called when it is the port's turn. Ports take turns in the order in which they became ready.
        open func takeTurn() {}

        /// Called when the port has entered a mode.
        open func didEnter(mode: Mode) {}
        open func didLeave(mode: Mode) {}

        /// Called when the kernel refuses to watch the descriptor, for example because it is closed.
        open func cannotWatch() {}

        /// Called once when the port has become invalid and left all modes.
        open func wasInvalidated() {}

        /// The name in recordings.
        open var title: String { name.isEmpty ? word : "\(word) \"\(name)\"" }
        /// The kind of item, in messages and recordings.
        open var word: String { "stream" }

        /// Queues the port for one turn in each of its modes.
        public final func signal() {
            guard isValid else { return }
            wantsTurn = true
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        /// Watches another descriptor. Call it before the old descriptor is closed.
        ///
        /// - Parameters:
        ///   - new: The descriptor to watch; -1 for none.
        ///   - isClosing: True if the caller closes the old descriptor next, and neither a duplicate nor a child
        ///     process keeps its file open. The kernel then forgets the old descriptor by itself, which saves a system
        ///     call.
        public final func watch(_ new: Int32, isClosing: Bool = false) {
            guard new != fd else { return }
            if fd >= 0 { for mode in modes { mode.descriptors?.unwatch(self, isClosing: isClosing) } }
            fd = new
            guard fd >= 0 else { return }
            for mode in modes { begin(in: mode) }
        }

        private func begin(in mode: ModeState) {
            guard fd >= 0 else { return }
            let failure = mode.makeDescriptorSet().map { $0.watch(self) } ?? SystemError("epoll_create").errno
            switch failure {
            case 0: break
            case ENOMEM, ENOSPC, EMFILE, ENFILE: tryAgain(fd, in: mode)
            case let failure: loseDescriptor(SystemError("epoll_ctl", errno: failure))
            }
        }

        /// Registers the descriptor again after 100 ms, when the kernel has no memory or descriptors for it now. Until
        /// that succeeds, each attempt gives the port a turn as if all events had come. So the port notices events
        /// late, but misses none.
        private func tryAgain(_ watched: Int32, in mode: ModeState) {
            let timer = Timer(fireDate: mode.loop.now + .milliseconds(100)) { [weak self, weak mode] _, _ in
                guard let self, let mode, isValid, fd == watched, mode.contains(self) else { return }
                begin(in: mode)
                if find([.read, .write]) { signal() }
            }
            timer.keepsAlive = false
            mode.loop.add(timer, to: mode.name)
        }

        override final var interest: FDPort.Events { [.read, .write] }

        override final func find(_ events: FDPort.Events) -> Bool {
            if note(events) { wantsTurn = true }
            return wantsTurn
        }

        override final func loseDescriptor(_ error: SystemError) {
            cannotWatch()
            signal()
        }

        override final func isStillReady() -> Bool { wantsTurn }

        override final func deliver() {
            wantsTurn = false
            takeTurn()
        }

        override final func didEnter(_ mode: ModeState) {
            begin(in: mode)
            if wantsTurn, !mode.ready.contains(self) { mode.ready.append(self) }
            didEnter(mode: mode.name)
        }

        override final func didLeave(_ mode: ModeState) {
            if fd >= 0 { mode.descriptors?.unwatch(self) }
            didLeave(mode: mode.name)
        }

        override final func retire() {
            fd = -1
            wasInvalidated()
        }
    }
}
