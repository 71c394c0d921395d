import CLuaSupport
import Glibc
import TestSupport
import Testing

@testable import Lua

@Suite("A state's memory", .timed)
struct StateMemoryTests {
    @Test("the record of a task takes at most 136 bytes")
    func fiber() { #expect(MemoryLayout<Fiber.Memory>.size <= 136) }

    /// C modules pass wrong old sizes to the allocator, which other hosts do not notice.
    @Test(
        "blocks of all sizes keep their contents when they are resized, also with a wrong old size",
        arguments: 1...4)
    func blocks(seed: UInt64) throws {
        let interpreter = try #require(Interpreter())
        var data: UnsafeMutableRawPointer?
        let allocate = try #require(lua_getallocf(interpreter.main, &data))
        var random = Random(seed: seed)
        var blocks: [(UnsafeMutableRawPointer, size: Int, fill: UInt8)] = []
        func size() -> Int { Int.random(in: 1...(Bool.random(using: &random) ? 300 : 5000), using: &random) }
        func check(_ block: UnsafeMutableRawPointer, _ count: Int, _ fill: UInt8) {
            let isWhole = UnsafeRawBufferPointer(start: block, count: count).allSatisfy { $0 == fill }
            #expect(isWhole, "\(count) bytes at \(block)")
        }
        for step in 0..<20_000 {
            let fill = UInt8(truncatingIfNeeded: step)
            switch Int.random(in: 0..<5, using: &random) {
            case 0...1:
                let size = size()
                let block = try #require(allocate(data, nil, 0, size))
                #expect(Int(bitPattern: block) % 16 == 0)
                memset(block, Int32(fill), size)
                blocks.append((block, size, fill))
            case 2 where !blocks.isEmpty:
                let i = Int.random(in: 0..<blocks.count, using: &random)
                let old = blocks[i]
                let new = size()
                let said = Bool.random(using: &random) ? old.size : size()
                let block = try #require(allocate(data, old.0, said, new))
                check(block, min(old.size, new), old.fill)
                memset(block, Int32(fill), new)
                blocks[i] = (block, new, fill)
            default:
                guard !blocks.isEmpty else { continue }
                let old = blocks.swapRemove(Int.random(in: 0..<blocks.count, using: &random))
                check(old.0, old.size, old.fill)
                _ = allocate(data, old.0, Bool.random(using: &random) ? old.size : 0, 0)
            }
        }
        for block in blocks {
            check(block.0, block.size, block.fill)
            _ = allocate(data, block.0, block.size, 0)
        }
        interpreter.close()
    }
}
extension Array {
    fileprivate mutating func swapRemove(_ i: Int) -> Element {
        swapAt(i, count - 1)
        return removeLast()
    }
}
