internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The place of a connection in the loop: it stays there as long as the connection does, so that a task's wait for an
/// answer takes no system call of its own.
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

    // As in HostPart: the host owns the state, which owns this object.
    private unowned(unsafe) let host: LuaHost
    /// The task that waits.
    fileprivate var fiber: Fiber?
    /// Whether the descriptor has become readable, or has failed, since the last wait.
    private var isReadable = false
    private var modes: [RunLoop.Mode] = []

    init(_ host: LuaHost, _ fd: Int32) {
        self.host = host
        super.init(name: "connection of postgres")
        watch(fd)
        host.loop.add(self, to: .common)
        _ = host.part(Part.self)
    }

    override var word: String { "port" }

    override func note(_ events: RunLoop.FDPort.Events) -> Bool {
        if !events.isDisjoint(with: [.read, .hangUp, .error]) { isReadable = true }
        return isReadable && fiber != nil
    }

    override func cannotWatch() { isReadable = true }

    override func takeTurn() {
        guard let fiber, isReadable else { return }
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
        switch call.beginWait(in: "a statement of postgres", cancel: { [unowned(unsafe) self] _ in end() }) {
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

    static let kind: Kind = Kind("postgres watch", methods: methods, collect: Kind.drop)

    private static let methods: Library = Library(
        of: kind,
        [
            .init("wait") { receiver($0, PostgresWatch.self).run { watch, call in watch.wait(call) } },
            .init("invalidate") { receiver($0, PostgresWatch.self).act { $0.invalidate() } },
        ])
}
