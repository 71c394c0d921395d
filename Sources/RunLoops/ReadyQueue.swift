/// What is ready in a mode and waits for its turn: ports, and "the timers" as one entry, first in, first out.
///
/// A ring in raw storage: an array would cost an exclusivity check and a uniqueness check at each step of each pass.
/// It does not own the ports: a port that leaves the mode leaves the queue.
struct ReadyQueue: ~Copyable {
    /// nil stands for the timers.
    typealias Entry = Unmanaged<RunLoop.PortBase>?

    private var storage: UnsafeMutablePointer<Entry>
    private var capacity = 8  // a power of two
    private var head = 0
    private(set) var count = 0
    private(set) var holdsTimers = false

    init() { storage = .allocate(capacity: capacity) }
    deinit { storage.deallocate() }

    var first: Entry { storage[head] }

    mutating func append(_ port: RunLoop.PortBase) {
        port.queues += 1
        push(Unmanaged.passUnretained(port))
    }

    mutating func appendTimers() {
        guard !holdsTimers else { return }
        holdsTimers = true
        push(nil)
    }

    mutating func removeFirst() {
        if let port = storage[head] { port.takeUnretainedValue().queues -= 1 } else { holdsTimers = false }
        head = (head + 1) & (capacity - 1)
        count -= 1
    }

    func contains(_ port: RunLoop.PortBase) -> Bool {
        guard port.queues > 0 else { return false }
        for i in 0..<count where storage[(head + i) & (capacity - 1)]?.toOpaque() == pointer(port) { return true }
        return false
    }

    mutating func remove(_ port: RunLoop.PortBase) {
        guard contains(port) else { return }
        port.queues -= 1
        removeAll { $0?.toOpaque() == pointer(port) }
    }

    mutating func removeTimers() {
        guard holdsTimers else { return }
        holdsTimers = false
        removeAll { $0 == nil }
    }

    private mutating func removeAll(where isGone: (Entry) -> Bool) {
        var kept = 0
        for i in 0..<count {
            let entry = storage[(head + i) & (capacity - 1)]
            guard !isGone(entry) else { continue }
            storage[(head + kept) & (capacity - 1)] = entry
            kept += 1
        }
        count = kept
    }

    private mutating func push(_ entry: Entry) {
        if count == capacity { grow() }
        storage[(head + count) & (capacity - 1)] = entry
        count += 1
    }

    private mutating func grow() {
        let larger = UnsafeMutablePointer<Entry>.allocate(capacity: capacity * 2)
        for i in 0..<count { larger[i] = storage[(head + i) & (capacity - 1)] }
        storage.deallocate()
        storage = larger
        head = 0
        capacity *= 2
    }
}

private func pointer(_ port: RunLoop.PortBase) -> UnsafeMutableRawPointer { Unmanaged.passUnretained(port).toOpaque() }
