internal import Glibc

/// Bytes in one block of memory: appended at its end, taken from its front. The owner has to `free` it.
struct ByteQueue {
    private var base: UnsafeMutableRawPointer?
    private var head = 0
    private(set) var count = 0
    private var capacity = 0

    var isEmpty: Bool { count == 0 }
    /// It has no memory.
    var isFreed: Bool { base == nil }

    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base.map { UnsafeRawPointer($0 + head) }, count: count)
    }

    /// Returns room for `more` bytes after the last one; nil without memory. Sometimes O(count).
    mutating func reserve(_ more: Int) -> UnsafeMutableRawPointer? {
        if let base {
            if head + count + more <= capacity { return base + head + count }
            // Room at the front is reused, unless a large part would be moved to gain little.
            if count + more <= capacity, head >= count {
                memmove(base, base + head, count)
                head = 0
                return base + count
            }
        }
        // At least twice the size, for a constant cost per byte. Large blocks are not rounded to a power of two.
        let wanted = count + more
        var size = max(512, base == nil ? 0 : 2 * capacity)
        if size < wanted {
            if wanted > 16384 { size = (wanted + 4095) & ~4095 } else { while size < wanted { size += size } }
        }
        // A large block often grows in place.
        if let base, head == 0 {
            guard let larger = realloc(base, size) else { return nil }
            self.base = larger
            capacity = size
            return larger + count
        }
        guard let larger = malloc(size) else { return nil }
        if let base {
            memcpy(larger, base + head, count)
            Glibc.free(base)
        }
        base = larger
        head = 0
        capacity = size
        return larger + count
    }

    /// Counts bytes that were written where `reserve` said.
    mutating func grow(_ more: Int) { count += more }

    /// Returns false, without effect, if there is no memory.
    mutating func append(_ new: UnsafeRawBufferPointer) -> Bool {
        guard let start = new.baseAddress, new.count > 0 else { return true }
        guard let place = reserve(new.count) else { return false }
        memcpy(place, start, new.count)
        count += new.count
        return true
    }

    /// The bytes stay in place until the next change.
    mutating func removeFirst(_ n: Int) {
        head += n
        count -= n
        if count == 0 { head = 0 }
    }

    mutating func free() {
        Glibc.free(base)
        self = ByteQueue()
    }

    /// Frees the memory of an empty queue.
    mutating func freeIfEmpty() { if count == 0, base != nil { free() } }

    /// Blocks that are worth keeping for the next queue.
    private static let spareSizes = 65536...1 << 20

    /// Frees the memory of an empty queue, or leaves it for another one.
    mutating func freeIfEmpty(leaving spare: inout ByteQueue) {
        guard count == 0, base != nil else { return }
        if Self.spareSizes ~= capacity, capacity > spare.capacity { swap(&self, &spare) }
        free()
    }

    /// Takes a block over if the queue has none, and will need a large one.
    mutating func prepare(_ more: Int, from spare: inout ByteQueue) {
        if base == nil, more >= 16384, spare.base != nil { swap(&self, &spare) }
    }
}
