internal import Glibc
internal import Linux

extension RunLoop {
    /// For what keeps its own books about a descriptor, as streams do: a port-based source that is told of changes only.
    ///
    /// The kernel hears of the descriptor once in each mode; from then on a wait costs no system call but the loop's own. A
    /// subclass remembers what it was told until a system call finds the opposite: EAGAIN. Without a descriptor it is
    /// whatever says `signal()`.
    ///
    /// It keeps the loop alive only while it says so. Not thread-safe: use it on the thread of its loop.
    open class EdgePort: DescriptorPort {
        /// It is to have its turn.
        private final var wantsTurn = false

        /// - Parameter serves: it serves another item, whose modes are its own, and is not listed.
        public init(serves: Bool = false, name: String = "", order: Int = 0, owner: ItemOwner? = nil) {
            super.init(-1, name: name, order: order, owner: owner)
            isEdgeTriggered = true
            isInner = serves
            keepsAlive = false
        }

        /// Whether the loop runs for its sake. At first it does not.
        public final var isAwaited: Bool {
            get { keepsAlive }
            set { keepsAlive = newValue }
        }

        /// The kernel says what has become possible. In the middle of the loop's own work: take note of it, and return whether
        /// there is anything to do, which is done in `takeTurn`.
        open func note(_ events: FDPort.Events) -> Bool { true }

        /// Its turn has come, in the order in which ports became ready.
        open func takeTurn() {}

        /// It is in one more mode, or in one less.
        open func didEnter(mode: Mode) {}
        open func didLeave(mode: Mode) {}

        /// The kernel does not watch the descriptor: it is closed, or there is no memory.
        open func cannotWatch() {}

        /// It is invalid from now on, and in no mode.
        open func wasInvalidated() {}

        /// What recordings call it.
        open var title: String { name.isEmpty ? word : "\(word) \"\(name)\"" }
        /// What kind of thing it is, in messages.
        open var word: String { "stream" }

        /// Has it take its turn, in each of its modes that runs, once.
        public final func signal() {
            guard isValid else { return }
            wantsTurn = true
            for mode in modes where !mode.ready.contains(self) { mode.ready.append(self) }
        }

        /// Watches another descriptor; -1: none. Before the old one is closed.
        ///
        /// - Parameter isClosing: the old one is closed next, and nobody else has it, no duplicate and no child: then the kernel
        ///   forgets it with that, and need not be told.
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

        /// There is no room for it now. Until there is, it is asked now and then what is possible: it is late, but not deaf.
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
