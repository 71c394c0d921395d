/// A growing array in raw memory, for state that each event touches: no exclusivity check, no uniqueness check, no bounds check,
/// no reference counting. Its owner frees it, and keeps to its bounds.
struct RawBuffer<Element: BitwiseCopyable> {
    private struct Header {
        var base: UnsafeMutablePointer<Element>
        var count: Int
        var capacity: Int
    }

    private let header: UnsafeMutablePointer<Header>

    init(capacity: Int) {
        header = .allocate(capacity: 1)
        header.initialize(to: Header(base: .allocate(capacity: capacity), count: 0, capacity: capacity))
    }

    func free() {
        header.pointee.base.deallocate()
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

    /// Room for one more element at least. Amortized O(1).
    func makeRoom() {
        guard header.pointee.count == header.pointee.capacity else { return }
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: header.pointee.capacity * 2)
        larger.update(from: header.pointee.base, count: header.pointee.count)
        header.pointee.base.deallocate()
        header.pointee.base = larger
        header.pointee.capacity *= 2
    }
}
