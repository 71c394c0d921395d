/// A queue that grows as it must, and takes from its front in constant time.
struct Fifo<Element> {
    private var elements: [Element?] = []
    private var first = 0

    var count: Int { elements.count - first }
    var isEmpty: Bool { first == elements.count }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard first < elements.count else { return nil }
        let element = elements[first]
        elements[first] = nil
        first += 1
        // Amortized: an array that shifts each time would make a long queue slow.
        if first == elements.count || first > 64 && first * 2 > elements.count {
            elements.removeFirst(first)
            first = 0
        }
        return element
    }

    /// Takes out the first element of which the condition holds, wherever it is. O(n).
    mutating func removeFirst(where condition: (Element) -> Bool) -> Element? {
        for i in first..<elements.count {
            guard let element = elements[i], condition(element) else { continue }
            elements.remove(at: i)
            return element
        }
        return nil
    }
}
