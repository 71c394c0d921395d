/// A place in a `WaitQueue`. The waiter frees the place when the wait is over.
struct WaitLink {
    fileprivate(set) var previous: UnsafeMutablePointer<WaitLink>?
    fileprivate(set) var next: UnsafeMutablePointer<WaitLink>?
    // A waiter outlives its wait. Unmanaged, since counting references would cost more than the rest of a wait.
    let waiter: Unmanaged<Waiter>

    init(_ waiter: Waiter) { self.waiter = .passUnretained(waiter) }
}

/// Tasks that wait for an object, in the order in which they began to wait. The queue is stored in the object's
/// userdata. New memory of a userdata is zero, which means an empty queue.
struct WaitQueue {
    private(set) var first: UnsafeMutablePointer<WaitLink>?
    private var last: UnsafeMutablePointer<WaitLink>?

    var count: Int {
        var (count, place) = (0, first)
        while let link = place { (count, place) = (count + 1, link.pointee.next) }
        return count
    }

    mutating func append(_ link: UnsafeMutablePointer<WaitLink>) {
        link.pointee.previous = last
        link.pointee.next = nil
        if let last { last.pointee.next = link } else { first = link }
        last = link
    }

    mutating func remove(_ link: UnsafeMutablePointer<WaitLink>) {
        let (previous, next) = (link.pointee.previous, link.pointee.next)
        if let previous { previous.pointee.next = next } else { first = next }
        if let next { next.pointee.previous = previous } else { last = previous }
    }

    /// Empties the queue, and returns its first link; each link leads to the next.
    mutating func takeAll() -> UnsafeMutablePointer<WaitLink>? {
        defer { (first, last) = (nil, nil) }
        return first
    }
}
