import Synchronization

extension RunLoop {
    /// What a loop knows of one of its modes.
    final class ModeState {
        let name: Mode
        unowned(unsafe) let loop: RunLoop  // a loop owns its modes
        /// The same to compare, which counts no reference.
        let loopAddress: UnsafeMutableRawPointer
        var isCommon = false
        /// The number of the loop's passes when it came into being.
        let birth: Int
        /// For recordings; 0 before it has been in one.
        var label: UInt32 = 0
        /// It is among the loop's `modesToSpare`.
        var isSpare = false
        /// Nothing but this mode: an array that all items in no other mode share, as nearly all are.
        lazy var alone = [self]

        /// In order, then as added.
        private(set) var observers: [Observer] = []
        /// All activities any of them wants: most passes find here that nobody listens.
        private(set) var observed: Activity = []
        /// How many want each of them, by its bit.
        private var listeners = SIMD8<Int>()

        /// As added, while they are few: they are performed in order of signals, which is only known when they are. Retained; in raw
        /// memory, as passes look here.
        let sources = RawBuffer<Unmanaged<Source>>(capacity: 1)
        /// Where each of many is: tasks that wait for other threads are sources, and there may be ten thousand.
        private var places: [UnsafeMutableRawPointer: Int] = [:]
        private static let few = 64
        /// How many have left: while it is the same, who was in it still is.
        private(set) var departures = 0
        /// Some source in this mode may be signalled. Set on any thread.
        let hasSignals = Atomic<Bool>(false)

        /// How many ports are in it.
        private(set) var portCount = 0
        /// How many sources and ports in it do not keep the loop running.
        private var idleItems = 0
        /// What is ready, first come first served.
        let ready = ReadyQueue()
        /// The descriptors of its ports; made with the first.
        private(set) var descriptors: DescriptorSet? { didSet { noteDescriptors() } }
        /// The same, or the loop's `wakeOnly`: what a run in it sleeps with. A reference would be counted in each pass.
        private(set) var sleepsWith: Unmanaged<DescriptorSet>

        /// The timers' turn has come, and an observer still has to hear of the end of the wait: runs inside it leave them alone.
        var timersAreTaken = false
        /// The timer queues that serve this mode. The loop has them; in raw memory, as passes look here.
        let timers = RawBuffer<Unmanaged<TimerQueue>>(capacity: 1)
        /// The same, one by one: no array is made.
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

        /// Whether anything in it could happen, pending perform requests aside. Observers do not count.
        var holdsItems: Bool {
            if portCount + sources.count > idleItems { return true }
            return timers.elements.contains { $0._withUnsafeGuaranteedRef { $0.count > $0.idle } }
        }

        /// Nothing is in it, not even an observer; pending perform requests aside.
        var isVacant: Bool {
            portCount == 0 && sources.count == 0 && observers.isEmpty
                && timers.elements.allSatisfy { $0._withUnsafeGuaranteedRef { $0.count == 0 } }
        }

        /// For a port to be watched; nil when there are too many descriptors.
        func makeDescriptorSet() -> DescriptorSet? {
            if descriptors == nil { descriptors = DescriptorSet(waking: loop.handle) }
            return descriptors
        }

        /// Gives the descriptors back. Only while no port is in it, and it does not run.
        func dropDescriptorSet() { descriptors = nil }

        /// Of an item that only this loop's thread moves: every kind but custom sources.
        func contains(_ item: Item) -> Bool { item.modes.contains { $0 === self } }

        func insert(_ item: Item) {
            switch item {
            case let observer as Observer:
                // As often as not it is the last one.
                let isLast = observers.last.map { $0.order <= observer.order } ?? true
                let place = isLast ? nil : observers.firstIndex { $0.order > observer.order }
                observers.insert(observer, at: place ?? observers.endIndex)
                note(observer.activities, 1)
            case let source as Source:
                sources.append(.passRetained(source))
                remember(source)
                if !source.keepsAlive { idleItems += 1 }
            case let port as PortBase:
                portCount += 1
                if !port.keepsAlive { idleItems += 1 }
            default:
                fatalError("unknown kind of item")
            }
        }

        func delete(_ item: Item) {
            switch item {
            case let observer as Observer:
                guard let place = observers.firstIndex(where: { $0 === observer }) else { return }
                observers.remove(at: place)
                note(observer.activities, -1)
            case let source as Source:
                forget(source)
                departures += 1
                if !source.keepsAlive { idleItems -= 1 }
                Unmanaged.passUnretained(source).release()
            case let port as PortBase:
                portCount -= 1
                if !port.keepsAlive { idleItems -= 1 }
                ready.remove(port)
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

        /// An item that is in it has begun to keep the loop running, or has ceased to.
        func noteKeepsAlive(_ item: Item) {
            if !(item is Observer) { idleItems += item.keepsAlive ? -1 : 1 }
        }

        var items: [Item] {
            let ports = loop.ports.elements.map { $0.takeUnretainedValue() }.filter(contains)
            let sources = sources.elements.map { $0.takeUnretainedValue() }
            return sources + ports.sorted { $0.order < $1.order } + observers
        }
    }
}
