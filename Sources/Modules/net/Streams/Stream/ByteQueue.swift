internal import Glibc

/// Bytes in one block of memory: appended at its end, taken from its front. The owner has to `free` it.
///
/// The block begins with its own head (index, count, size), so that a queue without a block takes eight bytes: most
/// streams have two such queues.
struct ByteQueue {
    private struct Block {
        /// The index of the first byte, after this head.
        var first = 0
        var count = 0
        let capacity: Int
        static let size = MemoryLayout<Block>.size
    }
    private var block: UnsafeMutablePointer<Block>?

    var count: Int { block?.pointee.count ?? 0 }
    var isEmpty: Bool { count == 0 }
    /// The queue has no memory.
    var isFreed: Bool { block == nil }
    private var capacity: Int { block?.pointee.capacity ?? 0 }

    private static func base(_ block: UnsafeMutablePointer<Block>) -> UnsafeMutableRawPointer {
        UnsafeMutableRawPointer(block + 1)
    }

    var bytes: UnsafeRawBufferPointer {
        guard let block else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(start: Self.base(block) + block.pointee.first, count: block.pointee.count)
    }

    /// Returns memory for `more` bytes after the last byte; nil without memory. Sometimes O(count).
    mutating func reserve(_ more: Int) -> UnsafeMutableRawPointer? {
        if let block {
            let (first, count, capacity) = (block.pointee.first, block.pointee.count, block.pointee.capacity)
            if first + count + more <= capacity { return Self.base(block) + first + count }
            // Reuses the room at the front, unless many bytes would have to be moved for little room.
            if count + more <= capacity, first >= count {
                memmove(Self.base(block), Self.base(block) + first, count)
                block.pointee.first = 0
                return Self.base(block) + count
            }
        }
        // The new size is at least twice the old one, so that the cost per byte is constant. Large blocks are not
        // rounded to a power of two.
        let count = self.count
        let wanted = Block.size + count + more
        var size = max(512, block == nil ? 0 : 2 * (Block.size + capacity))
        if size < wanted {
            if wanted > 16384 { size = (wanted + 4095) & ~4095 } else { while size < wanted { size += size } }
        }
        // A large block often grows in place.
        let grows = block?.pointee.first == 0
        guard let memory = grows ? realloc(block, size) : malloc(size) else { return nil }
        let larger = memory.assumingMemoryBound(to: Block.self)
        if let block, !grows {
            memcpy(Self.base(larger), Self.base(block) + block.pointee.first, count)
            Glibc.free(block)
        }
        larger.initialize(to: Block(count: count, capacity: size - Block.size))
        block = larger
        return Self.base(larger) + count
    }

    /// Counts bytes that were written into the memory that `reserve` has returned.
    mutating func grow(_ more: Int) { block?.pointee.count += more }

    /// Returns false, without effect, if there is no memory.
    mutating func append(_ new: UnsafeRawBufferPointer) -> Bool {
        guard let start = new.baseAddress, new.count > 0 else { return true }
        guard let place = reserve(new.count) else { return false }
        memcpy(place, start, new.count)
        grow(new.count)
        return true
    }

    /// The bytes stay in place until the next change.
    mutating func removeFirst(_ n: Int) {
        guard let block else { return }
        block.pointee.count -= n
        block.pointee.first = block.pointee.count == 0 ? 0 : block.pointee.first + n
    }

    mutating func free() {
        Glibc.free(block)
        block = nil
    }

    /// Frees the memory of an empty queue.
    mutating func freeIfEmpty() { if let block, block.pointee.count == 0 { free() } }

    /// The sizes of blocks that are worth keeping for the next queue.
    private static let spareSizes = 65536...1 << 20

    /// Frees the memory of an empty queue, or leaves it for another queue.
    mutating func freeIfEmpty(leaving spare: inout ByteQueue) {
        guard let block, block.pointee.count == 0 else { return }
        let capacity = block.pointee.capacity
        if Self.spareSizes ~= capacity, capacity > spare.capacity { swap(&self, &spare) }
        free()
    }

    /// Takes the spare block if the queue has no block yet, and will need a large one.
    mutating func prepare(_ more: Int, from spare: inout ByteQueue) {
        if block == nil, more >= 16384, spare.block != nil { swap(&self, &spare) }
    }
}
