extension RunLoop {
    /// Who knows what a queued perform request is. Calls are made on the loop's thread.
    open class RequestOwner {
        public init() {}
        /// Do it. The request is no longer queued.
        open func perform(_ context: Int) {}
        /// It was dropped without being performed: cancelled, or its loop is gone.
        open func drop(_ context: Int) {}
    }

    /// Names a queued request, to cancel it.
    public struct RequestToken {
        let queue: Unmanaged<PerformQueue>
        let number: UInt64
    }
}

/// The perform requests for the same modes with the same order, in the order queued.
final class PerformQueue {
    let modes: [RunLoop.Mode]
    let includesCommon: Bool
    let order: Int

    private struct Entry {
        let number: UInt64  // of all requests of the loop, to merge queues
        let context: Int
        var owner: Unmanaged<RunLoop.RequestOwner>?  // nil: cancelled
    }

    // A ring of entries in raw storage; see ReadyQueue.
    private var storage = UnsafeMutablePointer<Entry>.allocate(capacity: 16)
    private var capacity = 16
    private var head = 0
    private var length = 0
    /// Without the cancelled ones.
    private(set) var count = 0

    init(modes: [RunLoop.Mode], order: Int) {
        self.modes = modes
        self.order = order
        includesCommon = modes.contains(.common)
    }

    deinit { storage.deallocate() }

    func serves(_ mode: RunLoop.ModeState) -> Bool { includesCommon && mode.isCommon || modes.contains(mode.name) }

    func append(_ owner: RunLoop.RequestOwner, _ context: Int, number: UInt64) {
        if length == capacity { grow() }
        storage[(head + length) & (capacity - 1)] = Entry(
            number: number, context: context, owner: Unmanaged.passRetained(owner))
        length += 1
        count += 1
    }

    /// The number of the first request, or `.max`.
    func firstNumber() -> UInt64 {
        while length > 0, storage[head].owner == nil { dropHead() }
        return length > 0 ? storage[head].number : .max
    }

    /// Only after `firstNumber()` found one.
    func takeFirst() -> (owner: Unmanaged<RunLoop.RequestOwner>, context: Int)? {
        let entry = storage[head]
        guard length > 0, let owner = entry.owner else { return nil }
        dropHead()
        count -= 1
        return (owner, entry.context)
    }

    /// Whether it was still queued. O(log n).
    func cancel(_ number: UInt64) -> Bool {
        var low = 0
        var high = length
        while low < high {
            let middle = (low + high) / 2
            if storage[(head + middle) & (capacity - 1)].number < number { low = middle + 1 } else { high = middle }
        }
        let index = (head + low) & (capacity - 1)
        guard low < length, storage[index].number == number, let owner = storage[index].owner else { return false }
        storage[index].owner = nil
        count -= 1
        owner.takeUnretainedValue().drop(storage[index].context)
        owner.release()
        return true
    }

    private func dropHead() {
        head = (head + 1) & (capacity - 1)
        length -= 1
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Entry>.allocate(capacity: capacity * 2)
        for i in 0..<length { larger[i] = storage[(head + i) & (capacity - 1)] }
        storage.deallocate()
        storage = larger
        head = 0
        capacity *= 2
    }
}
