internal import CLinux
public import Linux
internal import Synchronization

extension RunLoop {
    /// What other threads may do with a loop. It outlives the loop: once that is gone, all calls do nothing.
    ///
    /// All calls are safe on any thread. Only `wakeUp` and `raiseAttention` are safe in a signal handler.
    public final class Handle: Sendable {
        /// Becomes readable when the loop is to wake up. Edge-triggered wherever it is watched, never read.
        let wakeDescriptor: CInt
        /// An epoll instance that watches nothing else: what the loop sleeps with in a mode without ports.
        let epoll: CInt

        /// 0: awake; 1: asleep; 2: told to wake up. Only a change from 1 to 2 costs a system call.
        private let sleep = Atomic<UInt8>(0)
        /// How many such changes the loop has seen, and how many of the system calls are over. The loop's alone; anybody's.
        private let writesBegun = Atomic<UInt>(0)
        private let writesDone = Atomic<UInt>(0)
        /// By what it was last woken, for recordings: a label, and a flow in the lower half.
        private let waker = Atomic<UInt64>(0)
        private let descriptorsAreClosed = Atomic<Bool>(false)
        /// There is mail in `box`, or a stop.
        private let hasMail = Atomic<Bool>(false)
        /// Somebody called `raiseAttention`.
        private let attention = Atomic<Bool>(false)
        private let box = Lock(Mailbox())

        /// How a thread can wake the loop of another, as recordings call it.
        enum WakingCall: Int, CaseIterable {
            case wakeUp, perform, stop, message, signal
            var word: String { self == .wakeUp ? "wake_up" : "\(self)" }
        }

        struct Mailbox {
            var isOpen = true
            /// The numbers of the runs in progress, innermost last.
            var runs: [UInt64] = []
            /// Those of them that are to stop.
            var stops: [UInt64] = []
            /// Who called `stop(by:)` while there was no run, since the last one began.
            var earlyStop: String?
            var performs: [(modes: [Mode], order: Int, flow: UInt32, body: @Sendable (RunLoop) -> Void)] = []
            /// Ports that have got a message.
            var ports: [Port] = []
        }

        /// Gets all that a loop needs of the operating system: the loop with this handle can then be made without fail.
        ///
        /// - Throws: EMFILE, ENFILE, ENOMEM or ENOSPC.
        public init() throws(SystemError) {
            wakeDescriptor = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
            guard wakeDescriptor >= 0 else { throw SystemError("eventfd") }
            epoll = linux_epoll_waking(wakeDescriptor)
            guard epoll >= 0 else {
                let failure = SystemError("epoll_create")
                linux_close(wakeDescriptor)
                throw failure
            }
        }

        deinit { closeDescriptors() }

        /// Ends the loop's sleep. Any number of calls while it is awake are one. A wake-up that comes between the end of a
        /// sleep and the next pass is not remembered, and need not be: the pass looks at everything. CFRunLoopWakeUp.
        public func wakeUp() { wakeUp(.wakeUp) }

        /// - Parameter call: for recordings; nil in a signal handler, which may have interrupted the recorder.
        func wakeUp(_ call: WakingCall?) {
            if sleep.exchange(2, ordering: .sequentiallyConsistent) == 1 {
                if let call { waker.store(RunLoop.noteWaking(call), ordering: .relaxed) }
                var one: UInt64 = 1
                // Nobody else would wake the loop: the flag says that it has been.
                while write(wakeDescriptor, &one, 8) < 0, linux_errno() == EINTR {}
                writesDone.add(1, ordering: .releasing)
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
            wakeUp(.stop)
        }

        /// The same, but a loop that is not running notes it for `runUnlessStopped`, with the text for messages.
        public func stop(by caller: String) {
            let runs = box.withLock { box in
                if box.runs.isEmpty { box.earlyStop = caller }
                return !box.runs.isEmpty
            }
            if runs { stop() }
        }

        /// Who has stopped the loop while it did not run, since its last run began.
        public var earlyStop: String? { box.withLock { $0.earlyStop } }

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
            let flow = RunLoop.noteSend()
            let accepted = box.withLock { box in
                guard box.isOpen, !modes.isEmpty else { return box.isOpen }
                box.performs.append((modes, order, flow, body))
                return true
            }
            if accepted {
                hasMail.store(true, ordering: .releasing)
                wakeUp(.perform)
            }
            return accepted
        }

        /// Has the loop call `attentionHandler` as soon as it is between two callbacks. Safe in a signal handler.
        public func raiseAttention() {
            attention.store(true, ordering: .sequentiallyConsistent)
            wakeUp(nil)
        }

        /// A port of the loop's has got a message.
        func ring(_ port: Port) {
            box.withLock { if $0.isOpen { $0.ports.append(port) } }
            hasMail.store(true, ordering: .releasing)
            wakeUp(.message)
        }

        // The loop's own side.

        /// Whether the loop may sleep: nobody has called.
        func beginSleep() -> Bool {
            let state = sleep.compareExchange(expected: 0, desired: 1, ordering: .sequentiallyConsistent)
            return state.exchanged
        }

        /// Returns whether anybody has called meanwhile. Told by the exchange itself: who calls between a look at the flag and
        /// its reset would not be heard. An exchange, not a store, also because it must see what the caller wrote before.
        func endSleep() -> Bool {
            guard sleep.exchange(0, ordering: .sequentiallyConsistent) == 2 else { return false }
            writesBegun.store(writesBegun.load(ordering: .relaxed) + 1, ordering: .relaxed)
            return true
        }

        /// What is known of the wake-up that has ended a sleep: see `waker`; 0: nothing.
        func takeWaker() -> UInt64 {
            let taken = waker.load(ordering: .relaxed)
            // Whoever wakes the loop writes it only once it sleeps again.
            if taken != 0 { waker.store(0, ordering: .relaxed) }
            return taken
        }

        /// Forgets a wake-up of the loop that is awake; returns whether there was one.
        @discardableResult
        func clearWakeUp() -> Bool {
            sleep.load(ordering: .relaxed) != 0 && sleep.exchange(0, ordering: .sequentiallyConsistent) != 0
        }

        /// Nobody sleeps here any more. Whoever still holds the handle of a loop that is gone does not hold descriptors.
        func closeDescriptors() {
            guard !descriptorsAreClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
            // A caller may be about to write, and the number is somebody else's in a moment. It is never long.
            while writesDone.load(ordering: .acquiring) != writesBegun.load(ordering: .relaxed) { linux_yield() }
            linux_close(wakeDescriptor)
            linux_close(epoll)
        }

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

        /// - Parameter heedsEarlyStop: a stop that has come before the run is for it, and not forgotten.
        /// - Returns: whether there was one.
        func beginRun(_ number: UInt64, heedsEarlyStop: Bool) -> Bool {
            box.withLock { box in
                box.runs.append(number)
                guard box.earlyStop != nil else { return false }
                if !heedsEarlyStop { box.earlyStop = nil }
                return heedsEarlyStop
            }
        }

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
