internal import Linux
internal import Lua
internal import RunLoops

/// `rl.source` and the methods of custom sources. The Lua half has the command buffer.
enum SourceBinding {
    static let methods: Library = Library(
        of: Kinds.source,
        [
            ItemBinding.invalidate, ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            .init("signal") { ItemBinding.act($0, RunLoop.Source.self) { $0.signal() } },
            .init("is_signalled") { source($0).answer { $0.isSignalled } },
            .init("wake_loops") { source($0).run { source, call in wakeLoops(source, call) } },
            .init("__tostring") {
                source($0).run { source, call in
                    call.answer(ItemBinding.text(call, source.isSignalled ? ["signalled"] : []))
                }
            },
        ])

    /// The user values of a source. `queue` has the commands that code of the source's own thread has posted.
    enum Value: Int, UserValue {
        case perform, schedule, cancel, queue
        static let labels: [StaticString] = ["perform", "schedule", "cancel", "queue"]
    }

    private static func source(_ thread: OpaquePointer?) -> Receiver<RunLoop.Source> {
        ItemBinding.shared(thread, RunLoop.Source.self)
    }

    private enum Option: Int, Field {
        case perform, schedule, cancel, order, name, modes, keepsAlive
        static let names: [StaticString] = ["perform", "schedule", "cancel", "order", "name", "modes", "keeps_alive"]
    }

    /// rl.source{…}
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        for field in [Option.perform, .schedule, .cancel] { _ = try options[field, Function.self] }
        let order = try options[.order, Integer.self] ?? 0
        let stay = try ItemBinding.Stay(options[.modes, ModeNames.self], options[.keepsAlive, Boolean.self])
        let name = try options[.name, Name.self] ?? ""
        options.keep(.perform, as: Value.perform)
        options.keep(.schedule, as: Value.schedule)
        options.keep(.cancel, as: Value.cancel)
        let items = call.luaHost.items
        /// Returns a schedule or cancel function for the engine. It calls the script's function with the loop and the
        /// mode.
        func tells(_ value: Value) -> (RunLoop.Source, RunLoop, RunLoop.Mode) -> Void {
            { source, loop, mode in
                items.call(source, userValue: value.number) { _, stack in
                    // If there is no memory, `push` has pushed an error instead of the value.
                    guard stack.push(loop.handle, Kinds.loop) else { return 1 }
                    _ = stack.push(mode.rawValue)
                    return 2
                }
            }
        }
        let source = RunLoop.Source(
            order: order, name: name, schedule: tells(.schedule), cancel: tells(.cancel), owner: items)
        return try ItemBinding.fill(call, box, source, stay)
    }

    private static func wakeLoops(_ source: RunLoop.Source, _ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        source.wakeLoops()
        // The calling thread's loop is awake, since it runs this call. Make its next wait return at once.
        if source.isIn(loop) { loop.wakeUp() }
        return call.nothing()
    }

    // MARK: For the command buffer, which checks its arguments

    private static func shared(_ call: Call) -> SharedItem? {
        call.stack.object(1, Kinds.source, as: SharedItem.self)
    }

    /// (source): Returns whether the source belongs to another thread.
    static func isForeign(_ call: Call) -> Int32 {
        call.answer(shared(call).map { $0.item.owner !== call.luaHost.items } ?? false)
    }

    /// (source, value…): Posts the values, which are in the parcel.
    static func postFromAfar(_ call: Call) throws(Misuse) -> Int32 {
        guard let parcel = call.takeParcel(), let shared = shared(call),
            let source = shared.item as? RunLoop.Source
        else { throw .noMemory }
        guard source.isValid else { return call.answer(false) }
        shared.commands.withLock { $0.append(parcel) }
        source.signal()
        source.wakeLoops()
        return call.answer(true)
    }

    /// (source): Returns the values of the next command from another thread, or nothing.
    static func takeCommand(_ call: Call) -> Int32 {
        guard let shared = shared(call) else { return call.nothing() }
        guard let parcel = shared.commands.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else {
            return call.nothing()
        }
        guard let count = parcel.unpack(onto: call.stack) else { return call.raiseValue() }
        return call.values(count)
    }
}
