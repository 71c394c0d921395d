import Glibc

/// A growing array in raw memory, for state that each event reads or writes. It checks neither exclusivity nor
/// uniqueness nor bounds, and counts no references. The owner must free the array and respect its bounds.
struct RawBuffer<Element: BitwiseCopyable> {
    private struct Header {
        var base: UnsafeMutablePointer<Element>
        var count: Int
        var capacity: Int
    }

    private let header: UnsafeMutablePointer<Header>

    init(capacity: Int) {
        header = .allocate(capacity: 1)
        header.initialize(to: Header(base: .raw(capacity: capacity), count: 0, capacity: capacity))
    }

    func free() {
        Glibc.free(header.pointee.base)
        header.deallocate()
    }

    var base: UnsafeMutablePointer<Element> { header.pointee.base }
    var capacity: Int { header.pointee.capacity }
    var elements: UnsafeMutableBufferPointer<Element> { .init(start: base, count: count) }

    var count: Int {
        get { header.pointee.count }
        nonmutating set { header.pointee.count = newValue }
    }

    /// Amortized O(1).
    func append(_ element: Element) {
        makeRoom()
        (base + count).initialize(to: element)
        count += 1
    }

    /// O(n).
    func insert(_ element: Element, at index: Int) {
        append(element)
        (base + index + 1).update(from: base + index, count: count - 1 - index)
        base[index] = element
    }

    /// O(n); cheaper near the end.
    func remove(at index: Int) {
        (base + index).update(from: base + index + 1, count: count - 1 - index)
        count -= 1
    }

    /// O(n).
    func removeAll(where isGone: (Element) -> Bool) {
        var kept = 0
        for index in 0..<count where !isGone(base[index]) {
            base[kept] = base[index]
            kept += 1
        }
        count = kept
    }

    /// Frees most of the memory that a burst has taken, if it is 64 kB or more. O(n).
    func shrink() {
        let enough = Swift.max(16, count * 2)
        guard capacity * MemoryLayout<Element>.stride >= 1 << 16, capacity >= 2 * enough else { return }
        header.pointee.base = header.pointee.base.resized(to: enough)
        header.pointee.capacity = enough
    }

    /// Makes room for at least one more element. Amortized O(1).
    func makeRoom() {
        guard header.pointee.count == header.pointee.capacity else { return }
        header.pointee.base = header.pointee.base.resized(to: header.pointee.capacity * 2)
        header.pointee.capacity *= 2
    }
}

/// Memory from malloc, whose realloc can enlarge a large block in place without copying it.
extension UnsafeMutablePointer where Pointee: BitwiseCopyable {
    static func raw(capacity: Int) -> Self { checked(malloc(capacity * MemoryLayout<Pointee>.stride)) }

    /// Moves the elements to memory of the new capacity. The old pointer is invalid from then on.
    func resized(to capacity: Int) -> Self { Self.checked(realloc(self, capacity * MemoryLayout<Pointee>.stride)) }

    private static func checked(_ memory: UnsafeMutableRawPointer?) -> Self {
        guard let memory else { fatalError("not enough memory") }
        return memory.assumingMemoryBound(to: Pointee.self)
    }
}
