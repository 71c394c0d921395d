internal import CLinux
public import Linux
internal import Synchronization

extension RunLoop {
    /// The calls that other threads may make to a loop. A handle may outlive its loop; its calls then do nothing.
    ///
    /// All calls are safe on any thread. Only `wakeUp` and `raiseAttention` are also safe in a signal handler.
    public final class Handle: Sendable {
        /// An eventfd that becomes readable to wake the loop. The descriptor is watched edge-triggered everywhere, and
        /// never read.
        let wakeDescriptor: CInt
        /// An epoll instance that watches only `wakeDescriptor`. In a mode without ports the loop sleeps in this
        /// instance.
        let epoll: CInt

        /// 0: the loop is awake; 1: it sleeps; 2: a thread has called `wakeUp`. Only the change from 1 to 2 costs a
        /// system call.
        private let sleep = Atomic<UInt8>(0)
        /// `writesBegun`: the number of wake-ups that ended a sleep; only the loop writes it. `writesDone`: how many of
        /// their system calls have returned; any thread writes it. The descriptors may be closed when both are equal.
        private let writesBegun = Atomic<UInt>(0)
        private let writesDone = Atomic<UInt>(0)
        /// The caller that last woke the loop, for recordings: a label in the upper half, a flow in the lower half.
        private let waker = Atomic<UInt64>(0)
        private let descriptorsAreClosed = Atomic<Bool>(false)
        /// Whether `box` holds requests, ports or stops.
        private let hasMail = Atomic<Bool>(false)
        /// Whether `raiseAttention` was called and not yet handled.
        private let attention = Atomic<Bool>(false)
        private let box = Lock(Mailbox())

        /// The ways in which a thread can wake another thread's loop; `word` is the name in recordings.
        enum WakingCall: Int, CaseIterable {
            case wakeUp, perform, stop, message, signal
            var word: String { self == .wakeUp ? "wake_up" : "\(self)" }
        }

        struct Mailbox {
            var isOpen = true
            /// The numbers of the runs in progress, innermost last.
            var runs: [UInt64] = []
            /// The numbers of those runs that are to stop.
            var stops: [UInt64] = []
            /// The name of the last caller of `stop(by:)` while no run was in progress, since the last run began.
            var earlyStop: String?
            var performs: [(modes: [Mode], order: Int, flow: UInt32, body: @Sendable (RunLoop) -> Void)] = []
            /// Ports that have received a message since the loop last took its mail.
            var ports: [Port] = []
        }

        /// Gets all operating-system resources of a loop. `RunLoop(poller:handle:)` then cannot fail.
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

        /// Ends the loop's sleep. Any number of calls while the loop is awake count as one. The loop does not remember
        /// a call between the end of a sleep and the next pass, since that pass checks everything. CFRunLoopWakeUp.
        public func wakeUp() { wakeUp(.wakeUp) }

        /// - Parameter call: The kind of call, for recordings. Nil in a signal handler, which may have interrupted the
        ///   recorder.
        func wakeUp(_ call: WakingCall?) {
            if sleep.exchange(2, ordering: .sequentiallyConsistent) == 1 {
                if let call { waker.store(RunLoop.noteWaking(call), ordering: .relaxed) }
                var one: UInt64 = 1
                // Retry until the write succeeds: `sleep` is now 2, so no other thread will write.
                while write(wakeDescriptor, &one, 8) < 0, linux_errno() == EINTR {}
                writesDone.add(1, ordering: .releasing)
            }
        }

        /// Ends the innermost run. A loop that does not run forgets the call. CFRunLoopStop.
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

        /// Ends the innermost run. A loop that does not run remembers the stop for `runUnlessStopped`.
        ///
        /// - Parameter caller: The name of the caller, for messages.
        public func stop(by caller: String) {
            let runs = box.withLock { box in
                if box.runs.isEmpty { box.earlyStop = caller }
                return !box.runs.isEmpty
            }
            if runs { stop() }
        }

        /// The name of the caller that last stopped the loop while it did not run; nil if there was none since the last
        /// run began.
        public var earlyStop: String? { box.withLock { $0.earlyStop } }

        /// Whether the loop is asleep now. CFRunLoopIsWaiting.
        public var isWaiting: Bool { sleep.load(ordering: .acquiring) == 1 }

        /// Whether the loop still exists.
        public var isAlive: Bool { box.withLock { $0.isOpen } }

        /// Queues a closure for the loop and wakes the loop. The closure runs once on the loop's thread, in the next
        /// pass in one of the modes. CFRunLoopPerformBlock and CFRunLoopWakeUp; performSelector:onThread:.
        ///
        /// - Parameters:
        ///   - modes: The modes in which it may run. An empty array queues nothing.
        ///   - order: Closures with lower orders run first; those with the same order run in the order of the calls.
        /// - Returns: False if the loop has ended; the closure is then dropped.
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

        /// Makes the loop call `attentionHandler` as soon as it is between two callbacks. Safe in a signal handler.
        public func raiseAttention() {
            attention.store(true, ordering: .sequentiallyConsistent)
            wakeUp(nil)
        }

        /// Reports to the loop that one of its ports has received a message.
        func ring(_ port: Port) {
            box.withLock { if $0.isOpen { $0.ports.append(port) } }
            hasMail.store(true, ordering: .releasing)
            wakeUp(.message)
        }

        // The calls of the loop itself.

        /// Marks the loop as asleep. Returns false if a thread has called `wakeUp` since the last sleep, so that the
        /// loop may not sleep.
        func beginSleep() -> Bool {
            let state = sleep.compareExchange(expected: 0, desired: 1, ordering: .sequentiallyConsistent)
            return state.exchanged
        }

        /// Marks the loop as awake. Returns whether a thread has called `wakeUp` since `beginSleep`.
        ///
        /// The exchange returns the answer itself: a separate load would miss a call between the load and the reset. It
        /// also makes the caller's earlier writes visible, which a plain store would not.
        func endSleep() -> Bool {
            guard sleep.exchange(0, ordering: .sequentiallyConsistent) == 2 else { return false }
            writesBegun.store(writesBegun.load(ordering: .relaxed) + 1, ordering: .relaxed)
            return true
        }

        /// Returns `waker`, which names the caller that ended the last sleep, and clears it; 0 if unknown.
        func takeWaker() -> UInt64 {
            let taken = waker.load(ordering: .relaxed)
            // A plain store is enough: threads write `waker` only while the loop sleeps.
            if taken != 0 { waker.store(0, ordering: .relaxed) }
            return taken
        }

        /// Clears a wake-up while the loop is awake. Returns whether there was a wake-up.
        @discardableResult
        func clearWakeUp() -> Bool {
            sleep.load(ordering: .relaxed) != 0 && sleep.exchange(0, ordering: .sequentiallyConsistent) != 0
        }

        /// Closes the descriptors when the loop has ended, although other threads may still hold the handle.
        func closeDescriptors() {
            guard !descriptorsAreClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
            // A thread in `wakeUp` may be about to write, and the system may soon give the descriptor's number to
            // another file. The wait is short: only the system call is left.
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

        /// - Parameter heedsEarlyStop: Whether a stop that came before the run applies to it. If false, such a stop is
        ///   forgotten.
        /// - Returns: Whether a stop that came before the run applies to it.
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
