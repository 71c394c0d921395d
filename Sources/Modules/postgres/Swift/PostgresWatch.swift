internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The port of a connection in the loop. The port stays in the loop as long as the connection exists. So a task's wait
/// for an answer takes no system call of its own, and the loop watches an idle connection without a timer.
final class PostgresWatch: RunLoop.EdgePort {
    /// Describes connections for `rl.why()`.
    final class Part: HostPart {
        override func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {
            guard let watch = item as? PostgresWatch else { return }
            guard let fiber = watch.fiber else { return entry.isHosts = true }
            entry.kind = "task"
            entry.detail = host.placeOfWait(fiber)
        }
    }

    // As in HostPart, `unowned(unsafe)` is right: the host owns the state, which owns this object.
    private unowned(unsafe) let host: LuaHost
    /// The task that waits.
    fileprivate var fiber: Fiber?
    /// Whether the descriptor has become readable, or has failed, since the last wait.
    private var isReadable = false
    private var modes: [RunLoop.Mode] = []
    /// Ends a wait. Made once, since Swift allocates memory for each closure.
    private var onCancel: (Fiber) -> Void = { _ in }

    private init(_ host: LuaHost, _ fd: Int32) {
        self.host = host
        super.init(name: "connection of postgres", owner: host.items)
        onCancel = { [unowned(unsafe) self] _ in end() }
        watch(fd)
        _ = host.part(Part.self)
    }

    /// watch(descriptor, function): the function is called when input comes for which no task waits.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let host = call.luaHost
        call.stack.pushCopy(of: 3)
        call.stack.setUserValue(ItemBinding.Value.callback.number, of: 1)
        let watch = PostgresWatch(host, Int32(clamping: call.integer(2) ?? -1))
        let count = ItemBinding.fill(call, box, watch)
        guard host.items.anchor(watch, call.stack, 1) else { throw .noMemory }
        host.loop.add(watch, to: .common)
        return count
    }

    override var word: String { "port" }

    override func note(_ events: RunLoop.FDPort.Events) -> Bool {
        guard !events.isDisjoint(with: [.read, .hangUp, .error]) else { return false }
        isReadable = true
        return true
    }

    override func cannotWatch() { isReadable = true }

    override func takeTurn() {
        guard isReadable else { return }
        guard let fiber else { return host.items.call(self) { _, _ in 0 } }
        end()
        host.resume(fiber, arguments: 0)
    }

    private func end() {
        fiber = nil
        isReadable = false
        isAwaited = false
    }

    /// wait(whether input is unread): makes the task wait until there may be something to read. Epoll reports only
    /// input that arrives later. If there is unread input already, the task continues in the next pass.
    func wait(_ call: Call) -> Int32 {
        guard fiber == nil, isValid else { return call.raise("a statement waits for this connection already") }
        if call.boolean(2) {
            isReadable = true
            signal()
        } else if isReadable {
            isReadable = false
            return 0
        }
        switch call.beginWait(in: "a statement of postgres", cancel: onCancel) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            self.fiber = fiber
            if isBackground != fiber.isBackground { isBackground = fiber.isBackground }
            isAwaited = true
            if !host.loop.runsInCommonMode, let mode = host.loop.currentMode, !modes.contains(mode) {
                modes.append(mode)
                host.loop.add(self, to: mode)
            }
            return call.yield()
        }
    }

    static let kind: Kind = Kind(
        "postgres watch", values: ItemBinding.Value.labels, methods: methods, collect: Kind.drop)

    private static let methods: Library = Library(
        of: kind,
        [
            .init("wait") { receiver($0, PostgresWatch.self).run { watch, call in watch.wait(call) } },
            .init("invalidate") { receiver($0, PostgresWatch.self).act { $0.invalidate() } },
        ])
}
