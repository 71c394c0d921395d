/// The requests for the same modes with the same order, in the order of the calls.
final class RequestQueue {
    let modes: [RunLoop.Mode]
    let includesCommon: Bool
    let order: Int

    // Keep an entry small: in a burst, writing the entries takes as long as calling the functions.
    private struct Entry {
        let number: UInt64  // the sequence number among all requests of the loop, by which queues are merged
        let context: Int
        private var bits: UInt  // the owner's address, with the lowest bit set if it is retained; 0 if cancelled

        init(_ number: UInt64, _ context: Int, _ owner: Unmanaged<RunLoop.RequestOwner>, isRetained: Bool) {
            self.number = number
            self.context = context
            bits = UInt(bitPattern: owner.toOpaque()) | (isRetained ? 1 : 0)
        }

        var isCancelled: Bool { bits == 0 }

        var owner: UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: bits & ~1) }

        /// Takes the request out; returns nil after the first call.
        mutating func take() -> Request? {
            guard let owner else { return nil }
            defer { bits = 0 }
            return Request(owner: .fromOpaque(owner), context: context, isRetained: bits & 1 != 0)
        }
    }

    /// A request that has been taken out of the queue.
    struct Request {
        let owner: Unmanaged<RunLoop.RequestOwner>
        let context: Int
        let isRetained: Bool

        func perform() {
            owner._withUnsafeGuaranteedRef { $0.perform(context) }
            if isRetained { owner.release() }
        }

        func drop() {
            owner._withUnsafeGuaranteedRef { $0.drop(context) }
            if isRetained { owner.release() }
        }
    }

    private let ring: Ring<Entry>
    /// The number of queued requests that were not cancelled.
    private(set) var count = 0

    init(modes: [RunLoop.Mode], order: Int) {
        self.modes = modes
        self.order = order
        includesCommon = modes.contains(.common)
        // A program may use many orders, each with its own queue for a single request, so begin small for orders other
        // than 0.
        ring = Ring(capacity: order == 0 ? 16 : 2)
    }

    deinit { ring.free() }

    func shrink() { ring.shrink() }

    func serves(_ mode: RunLoop.ModeState) -> Bool { includesCommon && mode.isCommon || modes.contains(mode.name) }

    func append(_ owner: RunLoop.RequestOwner, _ context: Int, number: UInt64, retains: Bool) {
        ring.append(Entry(number, context, .passUnretained(owner), isRetained: retains))
        if retains { _ = Unmanaged.passRetained(owner) }
        count += 1
    }

    /// Returns the number of the first request after `last`, or `.max`. O(1) unless requests were skipped or cancelled.
    func firstNumber(after last: UInt64) -> UInt64 {
        while ring.count > 0, ring.front.pointee.isCancelled { ring.dropFirst() }
        guard ring.count > 0 else { return .max }
        if ring.front.pointee.number > last { return ring.front.pointee.number }
        for i in index(of: last + 1)..<ring.count {
            let entry = ring.place(i).pointee
            if !entry.isCancelled { return entry.number }
        }
        return .max
    }

    /// Takes the request that `firstNumber` found; nil for `.max`.
    func take(_ number: UInt64) -> Request? {
        guard number != .max else { return nil }
        let place = ring.place(index(of: number))
        guard let request = place.pointee.take() else { return nil }
        if place == ring.front { ring.dropFirst() }
        count -= 1
        return request
    }

    /// Takes the first request if its number is at most `limit`. O(1) apart from cancelled ones.
    @inline(__always)
    func takeFirst(upTo limit: UInt64) -> (request: Request, number: UInt64)? {
        while ring.count > 0, ring.front.pointee.number <= limit {
            let number = ring.front.pointee.number
            let request = ring.front.pointee.take()
            ring.dropFirst()
            guard let request else { continue }
            count -= 1
            return (request, number)
        }
        return nil
    }

    /// Returns the index, from the front, of the first request whose number is at least `number`. O(1) for the front,
    /// else O(log n).
    private func index(of number: UInt64) -> Int {
        if ring.count > 0, ring.front.pointee.number >= number { return 0 }
        var low = 0
        var high = ring.count
        while low < high {
            let middle = (low + high) / 2
            if ring.place(middle).pointee.number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Drops all requests of an owner, and returns their count. O(n log n).
    func cancelAll(of owner: RunLoop.RequestOwner) -> Int {
        let opaque = Unmanaged.passUnretained(owner).toOpaque()
        var numbers: [UInt64] = []
        for i in 0..<ring.count {
            let entry = ring.place(i).pointee
            if entry.owner == opaque { numbers.append(entry.number) }
        }
        return numbers.reduce(0) { $0 + (cancel($1) ? 1 : 0) }
    }

    /// Drops a request. Returns whether it was still queued. O(log n).
    func cancel(_ number: UInt64) -> Bool {
        let low = index(of: number)
        guard low < ring.count else { return false }
        let place = ring.place(low)
        guard place.pointee.number == number, let request = place.pointee.take() else { return false }
        count -= 1
        request.drop()
        return true
    }

    func contexts(of owner: RunLoop.RequestOwner) -> [Int] {
        let opaque = Unmanaged.passUnretained(owner).toOpaque()
        return (0..<ring.count).compactMap { i in
            let entry = ring.place(i).pointee
            return entry.owner == opaque ? entry.context : nil
        }
    }
}
