internal import Linux
internal import Synchronization

extension RunLoop {
    /// A custom source, which calls back after the program has signalled it. CFRunLoopSource version 0.
    ///
    /// `signal()` marks the source; the next pass of a loop in one of the source's modes performs the source. `signal`,
    /// `isSignalled` and `wakeLoops` are safe on any thread; use everything else on the thread of the source's loop. A
    /// source may be in modes of several loops.
    public final class Source: Item, @unchecked Sendable {
        // Sendable: `lock` guards `modes`. The threads of the source's loops change `modes`; `signal` reads its
        // elements on any thread. The rest is constant, atomic, or used only on the threads of its loops.
        private let onSchedule: ((Source, RunLoop, Mode) -> Void)?
        private let onPerform: ((Source) -> Void)?
        private let onCancel: ((Source, RunLoop, Mode) -> Void)?
        /// The elements of `modes`, guarded by the same lock. In raw memory, so that a signal, which is frequent,
        /// changes no reference counts.
        private let entered = RawBuffer<Unmanaged<ModeState>>(capacity: 1)
        // This is not `Lock(())`, since ThreadSanitizer confuses the address of a value of size zero with that of its
        // neighbour.
        private let lock = Lock(false)
        /// The sequence number, among the signals of all sources, of the first signal since the last perform; 0 if not
        /// signalled.
        private let signalled = Atomic<UInt64>(0)
        private static let signals = Atomic<UInt64>(0)
        /// The flow of the signal, for recordings.
        private let flow = Atomic<UInt32>(0)

        /// - Parameters:
        ///   - order: Sources with lower orders are performed first.
        ///   - name: The name in descriptions and recordings.
        ///   - schedule: Called on the loop's thread for each mode that the source enters.
        ///   - cancel: Called on the loop's thread for each mode that the source leaves.
        ///   - owner: The owner's `perform` is called if there is no closure.
        ///   - perform: Called on the loop's thread, once for all signals since the last call.
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

        /// Marks the source. This does not wake a sleeping loop: call `wakeLoops()`, too. Safe on any thread. Does
        /// nothing if the source is invalid. CFRunLoopSourceSignal.
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

        /// Whether the source is signalled and not performed yet. Safe on any thread.
        public var isSignalled: Bool { signalled.load(ordering: .acquiring) != 0 }

        /// Wakes every loop that holds the source. Safe on any thread. CFRunLoopWakeUp for each loop.
        public func wakeLoops() {
            let handles = lock.withLock { _ in modes.map(\.loop.handle) }
            for handle in handles { handle.wakeUp(.signal) }
        }

        /// The sequence number of the signal among those of all sources, by which a pass sorts sources; nil if not
        /// signalled.
        var signalNumber: UInt64? {
            let number = signalled.load(ordering: .acquiring)
            return number == 0 ? nil : number
        }

        /// Returns the flow of the signal, and clears it. Call it before `perform`: no thread writes `flow` while the
        /// source is signalled.
        func takeFlow() -> UInt32 {
            let taken = flow.load(ordering: .relaxed)
            if taken != 0 { flow.store(0, ordering: .relaxed) }
            return taken
        }

        /// Clears the signal and calls the callback. Clearing comes first, so that a signal during the callback counts
        /// for the next pass.
        func perform() {
            signalled.store(0, ordering: .sequentiallyConsistent)
            if let onPerform { onPerform(self) } else { owner?.perform(self) }
        }

        override var enteredModes: [ModeState] { lock.withLock { _ in modes } }

        /// Whether `loop` holds the source. Safe on any thread while the loop exists.
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
