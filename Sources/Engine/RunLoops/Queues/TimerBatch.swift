internal import CLinux

/// The timers about to fire, of all runs in progress. Each run owns a section of the array; the last section belongs to
/// the innermost run.
struct TimerBatch: ~Copyable {
    private let places = RawBuffer<NodePointer?>(capacity: 64)

    deinit { places.free() }

    var count: Int { places.count }

    subscript(index: Int) -> NodePointer? {
        get { places.base[index] }
        nonmutating set {
            if let node = places.base[index] { node.pointee.batchPlaces -= 1 }
            places.base[index] = newValue
            guard let newValue else { return }
            newValue.pointee.batchPlaces += 1
            newValue.pointee.batchIndex = Int32(truncatingIfNeeded: index)
        }
    }

    func append(_ node: NodePointer) {
        places.makeRoom()
        places.base[places.count] = nil
        self[places.count] = node
        places.count += 1
    }

    /// Prefetches a timer: with a hundred thousand timers, few are in the processor's cache. Also prefetches the memory
    /// before the node, where the callback finds the host's object.
    func prefetch(_ index: Int) {
        guard index < count, let node = places.base[index] else { return }
        linux_prefetch(node, -96)
        linux_prefetch(node, -32)
        linux_prefetch(node, 32)
    }

    /// O(1) for a timer in one section; O(length) in the rare case of several.
    func remove(_ node: NodePointer) {
        guard node.pointee.batchPlaces > 0 else { return }
        let latest = Int(node.pointee.batchIndex)
        if places.base[latest] == node { self[latest] = nil }
        guard node.pointee.batchPlaces > 0 else { return }
        for index in 0..<count where places.base[index] == node { self[index] = nil }
    }

    func shrink() { places.shrink() }

    func truncate(to count: Int) { places.count = count }
}
