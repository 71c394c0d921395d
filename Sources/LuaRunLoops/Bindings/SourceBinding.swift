internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.source` and the methods of custom sources. The command buffer is written in Lua.
enum SourceBinding {
    static let methods = Library([
        .init("invalidate") { ItemBinding.invalidate(Call($0), Kinds.source, "source:invalidate") },
        .init("is_valid") { ItemBinding.isValid(Call($0), Kinds.source, "source:is_valid") },
        .init("name") { ItemBinding.name(Call($0), Kinds.source, "source:name") },
        .init("order") { ItemBinding.order(Call($0), Kinds.source, "source:order") },
        .init("signal") { signal(Call($0)) },
        .init("is_signalled") { isSignalled(Call($0)) },
        .init("wake_loops") { wakeLoops(Call($0)) },
    ])

    private static let names: [StaticString] = ["perform", "schedule", "cancel", "order", "name"]

    /// rl.source{…}
    static func make(_ call: Call) -> Int32 {
        let options: Options
        switch Options.read(call, 2, of: "rl.source", names) {
        case .success(let read): options = read
        case .failure(let misuse): return call.raise(misuse.message)
        }
        for field in 0...2 where !ItemBinding.isFunctionOrMissing(call, options, field) {
            return call.raise(options.wrong(field, "a function").message)
        }
        guard options.isMissing(3) || call.integer(options.index(3)) != nil else {
            return call.raise(options.wrong(3, "an integer").message)
        }
        guard options.isMissing(4) || call.isName(options.index(4)) else {
            return call.raise(options.wrong(4, "a string").message)
        }
        for field in 0...2 { ItemBinding.keep(call, options, field, as: Int32(field) + 1) }
        let items = call.luaHost.items
        func told(_ value: Int32) -> (RunLoop.Source, RunLoop, RunLoop.Mode) -> Void {
            { source, loop, mode in
                items.call(source, userValue: value) { host, thread in
                    // Where memory is out, nil or the error takes the value's place.
                    guard Call(thread).push(loop.handle, Kinds.loop) else { return 1 }
                    var program = ValueProgram()
                    program.append(mode.rawValue)
                    _ = host.decode(program, onto: thread)
                    return 2
                }
            }
        }
        let source = RunLoop.Source(
            order: call.integer(options.index(3)) ?? 0, name: call.name(options.index(4)), schedule: told(2),
            cancel: told(3), owner: items
        ) { source in items.call(source) { _, _ in 0 } }
        return ItemBinding.fill(call, Kinds.source, source)
    }

    static func source(_ call: Call) -> RunLoop.Source? {
        call.object(1, Kinds.source, as: SharedItem.self)?.item as? RunLoop.Source
    }

    private static func signal(_ call: Call) -> Int32 {
        guard let source = source(call) else { return call.wrongSelf("source:signal", Kinds.source) }
        source.signal()
        return call.nothing()
    }

    private static func isSignalled(_ call: Call) -> Int32 {
        guard let source = source(call) else { return call.wrongSelf("source:is_signalled", Kinds.source) }
        return call.answer(source.isSignalled)
    }

    private static func wakeLoops(_ call: Call) -> Int32 {
        guard let source = source(call) else { return call.wrongSelf("source:wake_loops", Kinds.source) }
        let loop = call.luaHost.loop
        source.wakeLoops()
        // Its own loop is awake, since it runs this: what is asked for is that its coming wait returns.
        if source.loop === loop { loop.wakeUp() }
        return call.nothing()
    }

    /// (source): whether it belongs to another thread.
    static func isForeign(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1) else { return call.answer(false) }
        return call.answer(!item.isHome)
    }

    /// (source, value…): the values are in the parcel.
    static func postFromAfar(_ call: Call) -> Int32 {
        guard let shared = call.object(1, Kinds.source, as: SharedItem.self), let parcel = call.takeParcel()
        else { return call.raiseOutOfMemory() }
        guard shared.item.isValid else { return call.answer(false) }
        shared.commands.withLock { $0.append(parcel) }
        source(call)?.signal()
        source(call)?.wakeLoops()
        return call.answer(true)
    }

    /// (source): the values of the next command from another thread, or nothing.
    static func takeCommand(_ call: Call) -> Int32 {
        guard let shared = call.object(1, Kinds.source, as: SharedItem.self) else { return call.nothing() }
        let parcel = shared.commands.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        guard let parcel else { return call.nothing() }
        guard let count = parcel.unpack(onto: call.thread) else { return call.raiseValue() }
        return call.values(count)
    }

    static func describe(_ call: Call) -> Int32 {
        guard let item = ItemBinding.item(call, 1, Kinds.source), let source = source(call) else {
            return call.wrongSelf("source:__tostring", Kinds.source)
        }
        return ItemBinding.text(call, item, Kinds.source, source.isSignalled ? ["signalled"] : [])
    }
}
