internal import Lua

/// A task or future for which `rl.first_of` or `rl.all_of` waits. The waiting function has their userdata on its stack.
enum Awaited {
    case task(LuaTask)
    case future(Future.Pointer)

    var isEnded: Bool {
        switch self {
        case .task(let task): task.isEnded
        case .future(let future): future.pointee.state != .open
        }
    }

    /// Whether this is a waiting task that has received the result of its wait already, or waits for such a task among
    /// others, as a nested `rl.timeout` does. `depth`: how many such waits lead here.
    func isWoken(_ depth: Int = 0) -> Bool {
        guard case .task(let task) = self else { return false }
        return !task.isEnded && Waiter.goesOnSoon(task.fiber, depth)
    }

    var hasFailed: Bool {
        switch self {
        case .task(let task): task.hasFailed
        case .future(let future): future.pointee.state == .failed
        }
    }

    /// The sequence number of its end among all ends of tasks and futures in this state.
    var endNumber: Int {
        switch self {
        case .task(let task): task.endNumber
        case .future(let future): future.pointee.endNumber
        }
    }

    /// Returns a text such as "task made at app.lua:3".
    func title(_ host: LuaHost) -> String {
        switch self {
        case .task(let task): host.title(of: task.fiber)
        case .future(let future): "future" + (host.site(Future.site(future)).map { " made at \($0)" } ?? "")
        }
    }
}
