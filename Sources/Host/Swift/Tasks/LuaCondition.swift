/// A condition of `rl.condition`: its waiting tasks, in the order in which they began to wait.
final class LuaCondition {
    /// The name of the wait in messages.
    var waitsIn: StaticString = "condition:wait"

    // Unowned: the waiter belongs to its fiber, which outlives the wait, and the waiter removes itself when the wait is
    // over.
    private unowned(unsafe) var first: Waiter?
    private unowned(unsafe) var last: Waiter?

    /// The task that has waited longest.
    var next: Waiter? { first }

    func append(_ waiter: Waiter) {
        waiter.neighbours = .init(previous: last, next: nil)
        if let last { last.neighbours.next = waiter } else { first = waiter }
        last = waiter
    }

    func remove(_ waiter: Waiter) {
        let links = waiter.neighbours
        if let previous = links.previous { previous.neighbours.next = links.next } else { first = links.next }
        if let next = links.next { next.neighbours.previous = links.previous } else { last = links.previous }
        waiter.neighbours = .init()
    }

    /// A waiter's neighbours in the queue.
    struct Links {
        unowned(unsafe) var previous: Waiter?
        unowned(unsafe) var next: Waiter?
    }
}
