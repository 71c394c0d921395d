import Glibc

/// A growing ring in raw memory: takes from its front and appends in constant time. It is raw for the same reasons as
/// `RawBuffer`. The owner frees it and must respect its bounds.
struct Ring<Element: BitwiseCopyable> {
    private struct Header {
        var base: UnsafeMutablePointer<Element>
        /// A power of two.
        var capacity: Int
        var head = 0
        var count = 0
    }

    private let header: UnsafeMutablePointer<Header>

    /// - Parameter capacity: A power of two.
    init(capacity: Int) {
        header = .allocate(capacity: 1)
        header.initialize(to: Header(base: .raw(capacity: capacity), capacity: capacity))
    }

    func free() {
        Glibc.free(header.pointee.base)
        header.deallocate()
    }

    var count: Int { header.pointee.count }

    /// The place of the first element. The ring must not be empty.
    var front: UnsafeMutablePointer<Element> { header.pointee.base + header.pointee.head }

    /// The place of the element at this distance from the front.
    func place(_ index: Int) -> UnsafeMutablePointer<Element> {
        header.pointee.base + ((header.pointee.head + index) & (header.pointee.capacity - 1))
    }

    /// Amortized O(1).
    @inline(__always)
    func append(_ element: Element) {
        if header.pointee.count == header.pointee.capacity { grow() }
        place(header.pointee.count).initialize(to: element)
        header.pointee.count += 1
    }

    func dropFirst() {
        header.pointee.head = (header.pointee.head + 1) & (header.pointee.capacity - 1)
        header.pointee.count -= 1
    }

    /// O(n).
    func removeAll(where isGone: (Element) -> Bool) {
        var kept = 0
        for index in 0..<count {
            let element = place(index).pointee
            guard !isGone(element) else { continue }
            place(kept).pointee = element
            kept += 1
        }
        header.pointee.count = kept
    }

    /// Frees the memory that a burst has taken, if the ring is empty and has 64 kB or more.
    func shrink() {
        guard count == 0, header.pointee.capacity * MemoryLayout<Element>.stride >= 1 << 16 else { return }
        header.pointee.base = header.pointee.base.resized(to: 16)
        header.pointee.capacity = 16
        header.pointee.head = 0
    }

    // Elements that had wrapped around to the beginning move after the old end.
    @inline(never)
    private func grow() {
        let capacity = header.pointee.capacity
        let larger = header.pointee.base.resized(to: capacity * 2)
        (larger + capacity).update(from: larger, count: header.pointee.head)
        header.pointee.base = larger
        header.pointee.capacity = capacity * 2
    }
}
