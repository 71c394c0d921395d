import Glibc

/// What is ready in a mode and waits for its turn: ports, and "the timers" as one entry, first in, first out.
///
/// In raw storage behind a constant: an array would cost an exclusivity check and a uniqueness check at each step of each pass.
/// It does not own the ports: a port that leaves the mode leaves the queue.
struct ReadyQueue: ~Copyable {
    /// nil stands for the timers.
    typealias Entry = Unmanaged<RunLoop.PortBase>?

    private struct State {
        /// A ring; a power of two in size.
        var ring: UnsafeMutablePointer<Entry>
        var capacity: Int
        var head = 0
        var count = 0
        var holdsTimers = false
    }

    private let state: UnsafeMutablePointer<State>

    init() {
        state = .allocate(capacity: 1)
        state.initialize(to: State(ring: .raw(capacity: 8), capacity: 8))
    }

    deinit {
        free(state.pointee.ring)
        state.deallocate()
    }

    var count: Int { state.pointee.count }
    var holdsTimers: Bool { state.pointee.holdsTimers }
    var first: Entry { state.pointee.ring[state.pointee.head] }

    /// The first entry, if it is a descriptor's port. Not retained.
    var firstFDPort: RunLoop.FDPort? {
        guard count > 0, let first else { return nil }
        return first._withUnsafeGuaranteedRef { port in
            // A cast would cost more than the rest of a pass does.
            type(of: port) == RunLoop.FDPort.self ? unsafe unsafeDowncast(port, to: RunLoop.FDPort.self) : nil
        }
    }

    private func place(_ i: Int) -> Int { (state.pointee.head + i) & (state.pointee.capacity - 1) }

    func append(_ port: RunLoop.PortBase) {
        port.queues += 1
        push(Unmanaged.passUnretained(port))
    }

    func appendTimers() {
        guard !holdsTimers else { return }
        state.pointee.holdsTimers = true
        push(nil)
    }

    func removeFirst() {
        if let port = first {
            port._withUnsafeGuaranteedRef { $0.queues -= 1 }
        } else {
            state.pointee.holdsTimers = false
        }
        state.pointee.head = place(1)
        state.pointee.count -= 1
    }

    func contains(_ port: RunLoop.PortBase) -> Bool {
        guard port.queues > 0 else { return false }
        for i in 0..<count where state.pointee.ring[place(i)]?.toOpaque() == pointer(port) { return true }
        return false
    }

    func remove(_ port: RunLoop.PortBase) {
        guard contains(port) else { return }
        port.queues -= 1
        removeAll { $0?.toOpaque() == pointer(port) }
    }

    func removeTimers() {
        guard holdsTimers else { return }
        state.pointee.holdsTimers = false
        removeAll { $0 == nil }
    }

    private func removeAll(where isGone: (Entry) -> Bool) {
        var kept = 0
        for i in 0..<count {
            let entry = state.pointee.ring[place(i)]
            guard !isGone(entry) else { continue }
            state.pointee.ring[place(kept)] = entry
            kept += 1
        }
        state.pointee.count = kept
    }

    private func push(_ entry: Entry) {
        if count == state.pointee.capacity { grow() }
        state.pointee.ring[place(count)] = entry
        state.pointee.count += 1
    }

    private func grow() {
        state.pointee.ring = state.pointee.ring.enlargedRing(of: state.pointee.capacity, head: state.pointee.head)
        state.pointee.capacity *= 2
    }
}

private func pointer(_ port: RunLoop.PortBase) -> UnsafeMutableRawPointer {
    Unmanaged.passUnretained(port).toOpaque()
}
