import Synchronization

extension RunLoop {
    /// The state of one mode of a loop.
    final class ModeState {
        let name: Mode
        unowned(unsafe) let loop: RunLoop  // the loop owns its modes
        /// The address of `loop`, to compare without counting a reference.
        let loopAddress: UnsafeMutableRawPointer
        var isCommon = false
        /// The number of the loop's passes when the mode was created.
        let birth: Int
        /// The mode's label in recordings; 0 until it is first recorded.
        var label: UInt32 = 0
        /// Whether the loop has run in the mode.
        var hasRun = false
        /// Whether the mode is in the loop's `modesToSpare`.
        var isSpare = false
        /// An array that contains only this mode. All items that are in no other mode share it: nearly all items.
        lazy var alone = [self]

        /// Sorted by order, then by addition.
        private(set) var observers: [Observer] = []
        /// The union of all activities that observers want; empty in most passes.
        private(set) var observed: Activity = []
        /// The number of observers for each activity, by its bit.
        private var listeners = SIMD8<Int>()

        /// The sources; in the order of addition as long as there are few. A pass performs them by order and by time of
        /// signal, so it sorts the signalled ones. Retained; in raw memory, since each pass reads it.
        let sources = RawBuffer<Unmanaged<Source>>(capacity: 1)
        /// The index of each source if there are many. Tasks that wait for other threads are sources, and there may be
        /// ten thousand.
        private var places: [UnsafeMutableRawPointer: Int] = [:]
        private static let few = 64
        /// The number of sources that have left the mode. While this number is unchanged, sources that a caller has
        /// found in the mode are still there.
        private(set) var departures = 0
        /// Set on any thread when a source in this mode may be signalled.
        let hasSignals = Atomic<Bool>(false)

        /// The number of ports in the mode.
        private(set) var portCount = 0
        /// The number of sources and ports in the mode that do not keep the loop running.
        private var idleItems = 0
        /// The number of sources and ports with `Item.mayAnswer`.
        private var answering = 0
        /// Ports, and the timers' turn, in the order in which they became ready.
        let ready = ReadyQueue()
        /// The descriptors of the mode's ports; created for the first port.
        private(set) var descriptors: DescriptorSet? { didSet { noteDescriptors() } }
        /// The set with which a run in this mode sleeps: `descriptors`, or the loop's `wakeOnly` if that is nil.
        /// Unmanaged, since each pass would change the reference count of a strong reference.
        private(set) var sleepsWith: Unmanaged<DescriptorSet>

        /// Whether an outer run has taken the timers' turn and has not fired them yet, because an observer of the end
        /// of the wait is called first. Nested runs then leave timers alone.
        var timersAreTaken = false
        /// The timer queues that serve this mode; the loop owns them. In raw memory, since each pass reads it.
        let timers = RawBuffer<Unmanaged<TimerQueue>>(capacity: 1)
        /// `timers` as a lazy sequence, which allocates no array.
        var timerQueues: some Swift.Sequence<TimerQueue> { timers.elements.lazy.map { $0.takeUnretainedValue() } }

        init(name: Mode, loop: RunLoop) {
            self.name = name
            self.loop = loop
            birth = loop.counters.pointee.passes
            loopAddress = Unmanaged.passUnretained(loop).toOpaque()
            sleepsWith = .passUnretained(loop.wakeOnly)
        }

        deinit {
            for source in sources.elements { source.release() }
            sources.free()
            timers.free()
        }

        private func noteDescriptors() { sleepsWith = .passUnretained(descriptors ?? loop.wakeOnly) }

        /// Whether the mode holds an item that keeps a run going. Queued requests are not considered. Observers do not
        /// count.
        var holdsItems: Bool {
            if portCount + sources.count > idleItems { return true }
            return timers.elements.contains { $0._withUnsafeGuaranteedRef { $0.count > $0.idle } }
        }

        /// Whether the mode has an item with `mayAnswer`. Such an item keeps a run going only while other code waits
        /// for a result.
        var mayAnswer: Bool {
            answering > 0 || timers.elements.contains { $0._withUnsafeGuaranteedRef { $0.answering > 0 } }
        }

        /// Whether nothing is in the mode, not even an observer. Queued requests do not count.
        var isVacant: Bool {
            portCount == 0 && sources.count == 0 && observers.isEmpty
                && timers.elements.allSatisfy { $0._withUnsafeGuaranteedRef { $0.count == 0 } }
        }

        /// Returns the mode's descriptor set for a port to be watched; nil if the process has no descriptors left.
        func makeDescriptorSet() -> DescriptorSet? {
            if descriptors == nil { descriptors = DescriptorSet(waking: loop.handle) }
            return descriptors
        }

        /// Closes the descriptor set. Allowed only while the mode has no ports and does not run.
        func dropDescriptorSet() { descriptors = nil }

        /// Whether the item is in this mode. Not for custom sources, which other threads may move.
        func contains(_ item: Item) -> Bool { item.modes.contains { $0 === self } }

        func insert(_ item: Item) {
            if let port = item.asPort {
                portCount += 1
                if !port.keepsAlive { idleItems += 1 }
                if port.mayAnswer { answering += 1 }
                return
            }
            switch item {
            case let observer as Observer:
                // The new observer often belongs at the end.
                let isLast = observers.last.map { $0.order <= observer.order } ?? true
                let place = isLast ? nil : observers.firstIndex { $0.order > observer.order }
                observers.insert(observer, at: place ?? observers.endIndex)
                note(observer.activities, 1)
            case let source as Source:
                sources.append(.passRetained(source))
                remember(source)
                if !source.keepsAlive { idleItems += 1 }
                if source.mayAnswer { answering += 1 }
            default:
                fatalError("unknown kind of item")
            }
        }

        func delete(_ item: Item) {
            if let port = item.asPort {
                portCount -= 1
                if !port.keepsAlive { idleItems -= 1 }
                if port.mayAnswer { answering -= 1 }
                return ready.remove(port)
            }
            switch item {
            case let observer as Observer:
                guard let place = observers.firstIndex(where: { $0 === observer }) else { return }
                observers.remove(at: place)
                note(observer.activities, -1)
            case let source as Source:
                forget(source)
                departures += 1
                if !source.keepsAlive { idleItems -= 1 }
                if source.mayAnswer { answering -= 1 }
                Unmanaged.passUnretained(source).release()
            default:
                fatalError("unknown kind of item")
            }
        }

        private func note(_ activities: Activity, _ change: Int) {
            for bit in listeners.indices {
                let activity = Activity(rawValue: 1 << bit)
                guard activities.contains(activity) else { continue }
                listeners[bit] += change
                if listeners[bit] > 0 { observed.insert(activity) } else { observed.remove(activity) }
            }
        }

        private func remember(_ source: Source) {
            guard sources.count > Self.few || !places.isEmpty else { return }
            if places.isEmpty {
                for place in 0..<sources.count { places[sources.base[place].toOpaque()] = place }
            } else {
                places[Unmanaged.passUnretained(source).toOpaque()] = sources.count - 1
            }
        }

        private func forget(_ source: Source) {
            let opaque = Unmanaged.passUnretained(source).toOpaque()
            guard !places.isEmpty else { return sources.removeAll { $0.toOpaque() == opaque } }
            guard let place = places.removeValue(forKey: opaque) else { return }
            sources.count -= 1
            let last = sources.base[sources.count]
            guard last.toOpaque() != opaque else { return }
            sources.base[place] = last
            places[last.toOpaque()] = place
        }

        /// Call this when the `keepsAlive` of an item in the mode has changed.
        func noteKeepsAlive(_ item: Item) {
            if item.isPort || !(item is Observer) { idleItems += item.keepsAlive ? -1 : 1 }
        }

        func noteAnswers(_ change: Int) { answering += change }

        var items: [Item] {
            let ports = loop.ports.elements.map { $0.takeUnretainedValue() }.filter(contains)
            let sources = sources.elements.map { $0.takeUnretainedValue() }
            return sources + ports.sorted { $0.order < $1.order } + observers
        }
    }
}
