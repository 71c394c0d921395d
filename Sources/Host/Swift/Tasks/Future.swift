internal import Lua

/// A future of `rl.future`, stored in its userdata. New memory of a userdata is zero, which means a future without an
/// answer. The answer is the userdata's user value: a single value, or a table of several.
struct Future {
    enum State: UInt8 { case open, completed, failed }

    private(set) var waiters = WaitQueue()
    private(set) var state = State.open
    /// The number of values.
    private var count: Int32 = 0
    /// The sequence number, from 1, of this future's end among all ends of tasks and futures in this state.
    private(set) var endNumber = 0

    typealias Pointer = UnsafeMutablePointer<Future>

    /// Returns the queue of a future's waiters.
    @inline(__always)
    static func queue(_ future: Pointer) -> UnsafeMutablePointer<WaitQueue> {
        // The queue is the first field.
        UnsafeMutableRawPointer(future).assumingMemoryBound(to: WaitQueue.self)
    }

    /// Returns the future that has the queue.
    @inline(__always)
    static func of(_ queue: UnsafeMutablePointer<WaitQueue>) -> Pointer {
        UnsafeMutableRawPointer(queue).assumingMemoryBound(to: Future.self)
    }

    static func site(_ future: Pointer) -> UInt32 { Box(before: UnsafeMutableRawPointer(future)).site }

    /// Takes the topmost values of a stack, whose first value is the future's userdata, as the answer, and lets the
    /// waiting tasks go on.
    ///
    /// - Returns: false if there is no memory.
    static func end(_ future: Pointer, _ state: State, _ stack: Stack, count: Int32, _ host: LuaHost) -> Bool {
        if count > 1, !stack.collect(count) { return false }
        if count > 0 { stack.setUserValue(FutureBinding.Value.answer.number, of: 1) }
        future.pointee.state = state
        future.pointee.count = count
        host.ends += 1
        future.pointee.endNumber = host.ends
        var place = future.pointee.waiters.takeAll()
        while let link = place {
            // Read the next link first: the waiter may reuse its link.
            place = link.pointee.next
            link.pointee.waiter._withUnsafeGuaranteedRef { $0.hasEnded(failed: state == .failed) }
        }
        return true
    }

    /// Pushes the answer onto the stack of a function that was called on the future's userdata.
    ///
    /// - Returns: the number of values; nil if there is no memory.
    static func push(_ future: Pointer, onto stack: Stack) -> Int32? {
        let count = future.pointee.count
        guard count > 0 else { return 0 }
        guard count > 1 else {
            stack.pushUserValue(FutureBinding.Value.answer.number, of: 1)
            return 1
        }
        guard stack.reserve(count + 4) else { return nil }
        // A script may have changed the user value by the debug library.
        guard stack.pushUserValue(FutureBinding.Value.answer.number, of: 1) == .table else { return 1 }
        let table = stack.top
        for index in 1...Int(count) { stack.pushElement(index, of: table) }
        stack.remove(at: table)
        return count
    }
}
