/// A queue that grows as it must, and takes from its front in constant time.
struct Fifo<Element> {
    private var storage: [Element?] = []
    private var first = 0

    var count: Int { storage.count - first }
    var isEmpty: Bool { first == storage.count }

    /// From the front on. O(n).
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
        // Amortized: an array that shifts each time would make a long queue slow.
        if first == storage.count || first > 64 && first * 2 > storage.count {
            storage.removeFirst(first)
            first = 0
        }
        return element
    }
}
