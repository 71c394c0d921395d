internal import CLuaSupport
public import Lua

/// A module beside `runloop`, which costs nothing before a script requires it: its functions and kinds of objects in Swift, and what
/// is written in Lua, found in LuaModules by the module's name.
///
/// All that it takes to add one, `runloop.clap`, whose `clap.clapper()` makes objects that count:
///
///     final class Clapper { var count = 0 }
///
///     enum ClapBinding {
///         static let battery = Battery(
///             "runloop.clap", kinds: [clapper],
///             functions: Library([.init("clapper", constructs: index) { Call($0).answerConstructed(Clapper()) }]))
///
///         static let index = Kind.nextIndex()
///         static let clapper = Kind(
///             index, "clapper", methods: Library([.init("clap") { clap(Call($0)) }]),
///             describe: { Call($0).answer("clapper") }, collect: Kinds.collect)
///     }
///
/// `ClapBinding.battery` goes into the list of `Program.batteries`, `Sources/LuaModules/runloop/clap.lua` into the table of modules.c:
///
///     local native, internals = ...  -- the functions above, and internals.methods "clapper"
///     local clap = { clapper = native.clapper }
///     return clap
///
/// Without a Lua half, the table of the functions is the module. Modules beneath it (`runloop.clap.loud`) are Lua halves by
/// themselves, and get the same two arguments. It works in every thread's state, and under the test runner.
///
/// What it keeps for a state is a `HostPart`. Objects that `loop:add` takes are `Schedulable`.
public struct Battery: Sendable {
    /// As `require` takes it: "runloop." and a word.
    let module: String
    let kinds: @Sendable () -> [Kind]
    let functions: @Sendable () -> Library
    let prepare: @Sendable (LuaHost) throws(Misuse) -> Void

    /// - Parameters:
    ///   - kinds: a kind before those whose methods construct it.
    ///   - prepare: called before the rest, in each state that requires the module; what it throws is raised there. The place
    ///     to find a library that may be missing.
    public init(
        _ module: String, kinds: @escaping @Sendable @autoclosure () -> [Kind] = [],
        functions: @escaping @Sendable @autoclosure () -> Library,
        prepare: @escaping @Sendable (LuaHost) throws(Misuse) -> Void = { _ throws(Misuse) in }
    ) {
        self.module = module
        self.kinds = kinds
        self.functions = functions
        self.prepare = prepare
    }

    /// A module that cannot be had here, and what `require` says about that.
    public init(_ module: String, refusal: String) {
        self.init(module, functions: Library([])) { _ throws(Misuse) in throw Misuse(refusal) }
    }

    /// Whether it makes this module.
    func has(_ name: String) -> Bool {
        name == module || name.utf8.starts(with: (module + ".").utf8) && name.withCString { cl_has_module($0) } != 0
    }
}

extension LuaHost {
    /// Has `require` find `runloop` and the batteries' modules.
    func openModules() -> Bool {
        // `runloop` is built when it is first required: a script that does not use it does not pay for it.
        cl_open_modules(
            main, { openRunloop(Call($0)) }, { LuaHost.battery(Call($0), 2) == nil ? 0 : 1 },
            { LuaHost.openBattery(Call($0)) }) == LUA_OK
    }

    private static func battery(_ call: Call, _ name: Int32) -> Battery? {
        guard let name = call.string(name) else { return nil }
        return call.luaHost.batteries().first { $0.has(name) }
    }

    /// What `require` calls, with the module's name.
    private static func openBattery(_ call: Call) -> Int32 {
        guard let battery = battery(call, 1), let name = call.string(1) else { return call.nothing() }
        let host = call.luaHost
        guard lua_checkstack(call.thread, 8) != 0 else { return call.raiseOutOfMemory() }
        if host.openedBatteries[battery.module] == nil {
            do throws(Misuse) {
                try battery.prepare(host)
            } catch {
                return call.raise(error.message)
            }
            // Its kinds and texts are everybody's.
            if let message = host.requireRunloop() { return call.raise(message) }
            for kind in battery.kinds() {
                guard call.define(kind) else { return call.raiseValue() }
            }
            guard call.push(battery.functions()) else { return call.raiseValue() }
            let slot = host.anchor(call.thread, -1)
            guard slot != 0 else { return call.raiseOutOfMemory() }
            host.openedBatteries[battery.module] = slot
            cl_pop(call.thread, 1)
        }
        guard let functions = host.openedBatteries[battery.module] else { return call.nothing() }
        guard name.withCString({ cl_has_module($0) }) != 0 else {
            host.push(call.thread, slot: functions)
            return call.values(1)
        }
        guard name.withCString({ cl_load_module(call.thread, $0) }) == LUA_OK else { return call.raiseValue() }
        host.push(call.thread, slot: functions)
        guard cl_push_internals(call.thread) == LUA_OK else { return call.raiseValue() }
        return call.call(arguments: 2)
    }
}
