/// A first-in, first-out queue of the ports that are ready in a mode. One entry stands for all due timers.
///
/// The queue uses raw storage, since an array would cost an exclusivity check and a uniqueness check at each step of
/// each pass. It does not retain the ports: a port that leaves the mode leaves the queue.
struct ReadyQueue: ~Copyable {
    /// Nil stands for the timers.
    typealias Entry = Unmanaged<RunLoop.PortBase>?

    private let ring = Ring<Entry>(capacity: 2)
    private let timers: UnsafeMutablePointer<Bool>

    init() {
        timers = .allocate(capacity: 1)
        timers.initialize(to: false)
    }

    deinit {
        ring.free()
        timers.deallocate()
    }

    var count: Int { ring.count }
    var holdsTimers: Bool { timers.pointee }
    var first: Entry { ring.front.pointee }

    /// The first entry, if it is an `FDPort`.
    var firstFDPort: Unmanaged<RunLoop.FDPort>? {
        guard count > 0, let first else { return nil }
        return first._withUnsafeGuaranteedRef { port in
            // Compares the exact type: a checked cast costs more than the rest of a pass.
            type(of: port) == RunLoop.FDPort.self ? .fromOpaque(first.toOpaque()) : nil
        }
    }

    func append(_ port: RunLoop.PortBase) {
        port.queues += 1
        ring.append(Unmanaged.passUnretained(port))
    }

    func appendTimers() {
        guard !holdsTimers else { return }
        timers.pointee = true
        ring.append(nil)
    }

    func removeFirst() {
        if let port = first {
            port._withUnsafeGuaranteedRef { $0.queues -= 1 }
        } else {
            timers.pointee = false
        }
        ring.dropFirst()
    }

    func contains(_ port: RunLoop.PortBase) -> Bool {
        guard port.queues > 0 else { return false }
        for i in 0..<count where ring.place(i).pointee?.toOpaque() == pointer(port) { return true }
        return false
    }

    func remove(_ port: RunLoop.PortBase) {
        guard contains(port) else { return }
        port.queues -= 1
        ring.removeAll { $0?.toOpaque() == pointer(port) }
    }

    func removeTimers() {
        guard holdsTimers else { return }
        timers.pointee = false
        ring.removeAll { $0 == nil }
    }
}

private func pointer(_ port: RunLoop.PortBase) -> UnsafeMutableRawPointer {
    Unmanaged.passUnretained(port).toOpaque()
}
