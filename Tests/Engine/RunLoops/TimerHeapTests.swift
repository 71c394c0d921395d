import TestSupport
import Testing

@testable import RunLoops

@Suite(.timed) struct TimerHeapTests {
    private final class Owner: RunLoop.TimerOwner {}

    /// Compares the heap with a sorted array after each of many random operations.
    @Test("a timer heap agrees with a sorted array over random operations", .soak(seconds: 30))
    func randomOperationsAgreeWithASortedArray() {
        for seed in Soak.seeds { operate(seed) }
    }

    private func operate(_ seed: UInt64) {
        var random = Random(seed: seed)
        let owner = Owner()
        let heap = TimerHeap()
        var model: [NodePointer] = []
        var age: UInt64 = 0
        let largest = seed % 4 == 0 ? 600 : 60
        func key(_ node: NodePointer) -> (Int64, Int, UInt64) {
            (node.pointee.fireDate, node.pointee.order, node.pointee.age)
        }
        for _ in 0..<1_000 {
            switch random.next(model.count < largest ? 4 : 3) {
            case 0 where !model.isEmpty:
                let node = model.remove(at: random.next(model.count))
                heap.remove(node)
                #expect(node.pointee.heapIndex == -1)
                node.deallocate()
            case 1 where !model.isEmpty:
                let node = model[random.next(model.count)]
                node.pointee.fireDate = Int64(random.next(50))
                heap.move(node)
            default:
                let node = NodePointer.allocate(capacity: 1)
                node.initialize(
                    to: .init(
                        fireDate: Int64(random.next(50)), tolerance: Int64(random.next(20)) * Int64(random.next(2)),
                        order: random.next(3), owner: owner))
                age += 1
                node.pointee.age = age
                model.append(node)
                heap.insert(node)
            }
            check(heap, model.count)
            let first = model.min { key($0) < key($1) }
            #expect(heap.first == first)
            #expect(heap.firstDate == first?.pointee.fireDate ?? .max)
            let latest = model.map { $0.pointee.fireDate + $0.pointee.tolerance }.min() ?? .max
            #expect(heap.latestStart() == latest)
            let limit = Int64(random.next(60))
            let due = model.map(\.pointee.fireDate).filter { $0 <= limit }.max() ?? .min
            #expect(heap.latestDate(upTo: limit) == due)
        }
        var previous: (Int64, Int, UInt64)?
        while let node = heap.first {
            if let previous { #expect(previous < key(node)) }
            previous = key(node)
            heap.remove(node)
            model.removeAll { $0 == node }
            node.deallocate()
        }
        #expect(model.isEmpty)
    }

    /// Each timer has the right index, and none is earlier than its parent.
    private func check(_ heap: borrowing TimerHeap, _ count: Int) {
        #expect(heap.count == count)
        var isSound = true
        for i in 0..<heap.count {
            let node = heap[i]
            if Int(node.pointee.heapIndex) != i { isSound = false }
            guard i > 0 else { continue }
            let parent = heap[(i - 1) / 4]
            let (a, b) = (parent.pointee.fireDate, node.pointee.fireDate)
            if a > b || a == b && TimerHeap.winsTie(node, over: parent) { isSound = false }
        }
        #expect(isSound)
    }
}
