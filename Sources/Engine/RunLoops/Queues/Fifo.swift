/// A growing queue that takes from its front in amortized constant time.
struct Fifo<Element> {
    private var storage: [Element?] = []
    private var first = 0

    var count: Int { storage.count - first }
    var isEmpty: Bool { first == storage.count }

    /// All elements from the front on. O(n).
    var elements: [Element] { storage[first...].compactMap(\.self) }

    /// O(n).
    mutating func removeAll(where condition: (Element) -> Bool) {
        storage = elements.filter { !condition($0) }
        first = 0
    }

    mutating func append(_ element: Element) { storage.append(element) }

    mutating func popFirst() -> Element? {
        guard first < storage.count else { return nil }
        let element = storage[first]
        storage[first] = nil
        first += 1
        // Shift only when half the array is unused: shifting for each element would make a long queue slow.
        if first == storage.count || first > 64 && first * 2 > storage.count {
            storage.removeFirst(first)
            first = 0
        }
        return element
    }
}
