internal import Linux
internal import Synchronization

extension RunLoop {
    /// Something that happens when somebody says so: a custom source, CFRunLoopSource version 0.
    ///
    /// `signal()` marks it; the next pass of a loop in one of its modes performs it. `signal` and `wakeLoops` may be called
    /// on any thread, everything else on the thread of its loop. It may be in modes of several loops.
    public final class Source: Item, @unchecked Sendable {
        // Sendable: `modes` is guarded by `lock` (changed by its loops' threads, read by any that signals); the rest is
        // constant, atomic, or used by its loops' threads only.
        private let onSchedule: ((Source, RunLoop, Mode) -> Void)?
        private let onPerform: ((Source) -> Void)?
        private let onCancel: ((Source, RunLoop, Mode) -> Void)?
        /// The same as `modes`, guarded by the same lock: signals are frequent, and count no references.
        private let entered = RawBuffer<Unmanaged<ModeState>>(capacity: 1)
        // Not of Void: ThreadSanitizer takes the address of a value without size for that of its neighbour.
        private let lock = Lock(false)
        /// When it was first signalled, as a running number; 0 while it is not.
        private let signalled = Atomic<UInt64>(0)
        private static let signals = Atomic<UInt64>(0)
        /// The flow of the signal, for recordings.
        private let flow = Atomic<UInt32>(0)

        /// - Parameters:
        ///   - schedule: called on the loop's thread for each mode the source enters.
        ///   - cancel: called on the loop's thread for each mode it leaves.
        ///   - owner: is told to perform, if there is no `perform`.
        ///   - perform: called on the loop's thread, once for any number of signals since it last was.
        public init(
            order: Int = 0, name: String = "", schedule: ((Source, RunLoop, Mode) -> Void)? = nil,
            cancel: ((Source, RunLoop, Mode) -> Void)? = nil, owner: ItemOwner? = nil,
            perform: ((Source) -> Void)? = nil
        ) {
            onSchedule = schedule
            onCancel = cancel
            onPerform = perform
            super.init(name: name, order: order, owner: owner)
        }

        deinit { entered.free() }

        /// Marks the source. It does not wake a loop that sleeps: call `wakeLoops()` too. Any thread; does nothing when
        /// the source is invalid. CFRunLoopSourceSignal.
        public func signal() {
            lock.withLock { _ in
                guard isValid, signalled.load(ordering: .relaxed) == 0 else { return }
                let number = Source.signals.wrappingAdd(1, ordering: .relaxed).newValue
                let flow = RunLoop.noteSend(to: entered.count == 1 ? entered.base[0] : nil)
                if flow != 0 { self.flow.store(flow, ordering: .relaxed) }
                signalled.store(number, ordering: .releasing)
                for mode in entered.elements {
                    mode._withUnsafeGuaranteedRef { $0.hasSignals.store(true, ordering: .releasing) }
                }
            }
        }

        /// Whether it is marked and not yet performed. Any thread.
        public var isSignalled: Bool { signalled.load(ordering: .acquiring) != 0 }

        /// Wakes every loop that holds the source. Any thread. CFRunLoopWakeUp for each.
        public func wakeLoops() {
            let handles = lock.withLock { _ in modes.map(\.loop.handle) }
            for handle in handles { handle.wakeUp(.signal) }
        }

        /// When it was signalled, in order of all signals; nil if it is not.
        var signalNumber: UInt64? {
            let number = signalled.load(ordering: .acquiring)
            return number == 0 ? nil : number
        }

        /// Before `perform`: while the source is signalled, nobody else sets it.
        func takeFlow() -> UInt32 {
            let taken = flow.load(ordering: .relaxed)
            if taken != 0 { flow.store(0, ordering: .relaxed) }
            return taken
        }

        /// Clears the mark first, so that a signal during the callback counts for the next pass.
        func perform() {
            signalled.store(0, ordering: .sequentiallyConsistent)
            if let onPerform { onPerform(self) } else { owner?.perform(self) }
        }

        override var enteredModes: [ModeState] { lock.withLock { _ in modes } }

        /// Whether a loop of this thread's holds it. Any thread, as long as the loop lives.
        public func isIn(_ loop: RunLoop) -> Bool { enteredModes.contains { $0.loop === loop } }

        // A custom source may be in several loops.
        override func belongsElsewhere(than loop: RunLoop) -> Bool { false }

        public override func invalidate() {
            let left: [ModeState]? = lock.withLock { _ in
                guard isValid else { return nil }
                isValid = false
                signalled.store(0, ordering: .releasing)
                return modes
            }
            for mode in left ?? [] { mode.loop.remove(self, from: mode) }
            forgetCommonModes()
        }

        override func didEnter(_ mode: ModeState) {
            lock.withLock { _ in
                modes.append(mode)
                entered.append(.passUnretained(mode))
                if signalled.load(ordering: .relaxed) != 0 { mode.hasSignals.store(true, ordering: .releasing) }
            }
            onSchedule?(self, mode.loop, mode.name)
        }

        override func didLeave(_ mode: ModeState) {
            lock.withLock { _ in
                modes.removeAll { $0 === mode }
                entered.count = 0
                for mode in modes { entered.append(.passUnretained(mode)) }
            }
            onCancel?(self, mode.loop, mode.name)
        }
    }
}
