/// Tasks that wait for a condition of the script's own, in the order in which they came.
final class LuaCondition {
    /// The name of the wait in messages.
    var waitsIn: StaticString = "condition:wait"

    // A waiter belongs to its fiber, which outlives its wait; it removes itself when the wait is over.
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

    /// The neighbours in the order.
    struct Links {
        unowned(unsafe) var previous: Waiter?
        unowned(unsafe) var next: Waiter?
    }
}
