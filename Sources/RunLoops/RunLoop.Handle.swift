internal import CLinux
internal import Synchronization

extension RunLoop {
    /// What other threads may do with a loop. It outlives the loop: once that is gone, all calls do nothing.
    ///
    /// All calls are safe on any thread. Only `wakeUp` and `raiseAttention` are safe in a signal handler.
    public final class Handle: Sendable {
        /// Becomes readable when the loop is to wake up. Edge-triggered wherever it is watched, never read.
        let wakeDescriptor: CInt

        /// 0: awake; 1: asleep; 2: told to wake up. Only a change from 1 to 2 costs a system call.
        private let sleep = Atomic<UInt8>(0)
        /// There is mail in `box`, or a stop.
        private let hasMail = Atomic<Bool>(false)
        /// Somebody called `raiseAttention`.
        private let attention = Atomic<Bool>(false)
        private let box = RunLoops.Lock(Mailbox())

        struct Mailbox {
            var isOpen = true
            /// The numbers of the runs in progress, innermost last.
            var runs: [UInt64] = []
            /// Those of them that are to stop.
            var stops: [UInt64] = []
            var performs: [(modes: [Mode], order: Int, body: @Sendable (RunLoop) -> Void)] = []
            /// Ports that have got a message.
            var ports: [Port] = []
        }

        public init() {
            wakeDescriptor = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
            guard wakeDescriptor >= 0 else { fatalError("rlhost: eventfd failed: errno \(linux_errno())") }
        }

        deinit { linux_close(wakeDescriptor) }

        /// Ends the loop's sleep. Any number of calls while it is awake are one. A wake-up that comes between the end of a
        /// sleep and the next pass is not remembered, and need not be: the pass looks at everything. CFRunLoopWakeUp.
        public func wakeUp() {
            if sleep.exchange(2, ordering: .sequentiallyConsistent) == 1 {
                var one: UInt64 = 1
                // Nobody else would wake the loop: the flag says that it has been.
                while write(wakeDescriptor, &one, 8) < 0, linux_errno() == EINTR {}
            }
        }

        /// Ends the innermost run; a loop that is not running does not remember it. CFRunLoopStop.
        public func stop() {
            let stops = box.withLock { box in
                guard let run = box.runs.last else { return false }
                box.stops.append(run)
                return true
            }
            guard stops else { return }
            hasMail.store(true, ordering: .releasing)
            wakeUp()
        }

        /// Whether the loop sleeps at this moment. CFRunLoopIsWaiting.
        public var isWaiting: Bool { sleep.load(ordering: .acquiring) == 1 }

        /// Whether the loop still exists.
        public var isAlive: Bool { box.withLock { $0.isOpen } }

        /// Queues a closure for the loop, which runs it on its thread in its next pass in one of the modes, and wakes it.
        /// CFRunLoopPerformBlock and CFRunLoopWakeUp; performSelector:onThread:.
        ///
        /// Returns false, and forgets the closure, when the loop is gone.
        @discardableResult
        public func perform(
            in modes: [Mode] = [.common], order: Int = 0, _ body: @escaping @Sendable (RunLoop) -> Void
        ) -> Bool {
            let accepted = box.withLock { box in
                guard box.isOpen, !modes.isEmpty else { return box.isOpen }
                box.performs.append((modes, order, body))
                return true
            }
            if accepted {
                hasMail.store(true, ordering: .releasing)
                wakeUp()
            }
            return accepted
        }

        /// Has the loop call `attentionHandler` as soon as it is between two callbacks. Safe in a signal handler.
        public func raiseAttention() {
            attention.store(true, ordering: .sequentiallyConsistent)
            wakeUp()
        }

        /// A port of the loop's has got a message.
        func ring(_ port: Port) {
            box.withLock { if $0.isOpen { $0.ports.append(port) } }
            hasMail.store(true, ordering: .releasing)
            wakeUp()
        }

        // The loop's own side.

        /// Whether the loop may sleep: nobody has called.
        func beginSleep() -> Bool {
            let state = sleep.compareExchange(expected: 0, desired: 1, ordering: .sequentiallyConsistent)
            return state.exchanged
        }

        /// An exchange, not a store: it must see what the last caller wrote before calling.
        func endSleep() { _ = sleep.exchange(0, ordering: .sequentiallyConsistent) }

        /// Forgets a wake-up.
        func clearWakeUp() { if sleep.load(ordering: .relaxed) != 0 { endSleep() } }

        var wasWoken: Bool { sleep.load(ordering: .relaxed) == 2 }

        var mayHaveMail: Bool { hasMail.load(ordering: .relaxed) }

        func takeAttention() -> Bool {
            attention.load(ordering: .relaxed) && attention.exchange(false, ordering: .acquiring)
        }

        func takeMail() -> Mailbox {
            guard hasMail.exchange(false, ordering: .acquiring) else { return Mailbox() }
            return box.withLock { box in
                let mail = box
                box.stops = []
                box.performs = []
                box.ports = []
                return mail
            }
        }

        func beginRun(_ number: UInt64) { box.withLock { $0.runs.append(number) } }

        func endRun() {
            box.withLock { box in
                let run = box.runs.removeLast()
                box.stops.removeAll { $0 == run }
            }
        }

        func close() -> Mailbox {
            box.withLock { box in
                let mail = box
                box = Mailbox(isOpen: false)
                return mail
            }
        }
    }
}
