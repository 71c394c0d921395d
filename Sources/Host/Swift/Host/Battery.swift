internal import Linux
public import Lua

/// A module other than `runloop`. It costs nothing until a script requires it. A module has functions and kinds of
/// objects in Swift, and a Lua half, which LuaModules finds by the module's name.
///
/// The following is all that a new module needs. `clap.clapper()` of `runloop.clap` makes objects that count:
///
///     final class Clapper { var count = 0 }
///
///     enum ClapBinding {
///         static let battery = Battery(
///             "runloop.clap", kinds: [clapper],
///             functions: Library("clap.", [
///                 .init("clapper", constructs: clapper) { Call($0).answerConstructed(Clapper()) }
///             ]))
///
///         static let clapper: Kind = Kind("clapper", methods: methods, collect: Kind.drop)
///         static let methods: Library = Library(of: clapper, [
///             .init("clap") { receiver($0, Clapper.self).act { $0.count += 1 } },
///             .init("count") { receiver($0, Clapper.self).answer { $0.count } },
///             .init("__tostring") { receiver($0, Clapper.self).answer { "clapper (\($0.count) claps)" } },
///         ])
///     }
///
/// `ClapBinding.battery` goes into the list of `Program.batteries`, and the name runloop.clap into
/// `Sources/Lua/Embedded/order`, by which scripts/build finds `Sources/Modules/clap/Lua/clap.lua`:
///
///     local native, internals = ...  -- the functions above, and internals.methods "clapper"
///     local clap = { clapper = native.clapper }
///     return clap
///
/// Without a Lua half, the table of the functions is the module. Parts below it (`runloop.clap.loud`) are Lua halves of
/// their own, and get the same two arguments; only the host's own Lua code can require them. A module works in every
/// thread's state, and under the test runner.
///
/// The data that a module keeps for a state is a `HostPart`. Objects that `loop:add` accepts are `Schedulable`.
public struct Battery: Sendable {
    /// The name for `require`: "runloop." and a word.
    let module: String
    /// Whether scripts can require the module.
    let isPublic: Bool
    let kinds: @Sendable () -> [Kind]
    private let library: LibraryOnce
    var functions: Library { library.library }
    let prepare: @Sendable (LuaHost) throws(Misuse) -> Void

    /// - Parameters:
    ///   - kinds: a kind comes before those whose methods construct it.
    ///   - prepare: called first in each state that requires the module. If it throws an error, `require` raises it. A
    ///     module checks here for a library that may be missing.
    public init(
        _ module: String, kinds: @escaping @Sendable @autoclosure () -> [Kind] = [],
        functions: @escaping @Sendable @autoclosure () -> Library,
        prepare: @escaping @Sendable (LuaHost) throws(Misuse) -> Void = { _ throws(Misuse) in }
    ) {
        self.module = module
        isPublic = true
        self.kinds = kinds
        library = LibraryOnce(functions)
        self.prepare = prepare
    }

    /// Makes a private part, which belongs to no public module: only the host's own Lua code can require it.
    public init(
        part: String, kinds: @escaping @Sendable @autoclosure () -> [Kind] = [],
        functions: @escaping @Sendable @autoclosure () -> Library = Library([])
    ) {
        module = part
        isPublic = false
        self.kinds = kinds
        library = LibraryOnce(functions)
        prepare = { _ throws(Misuse) in }
    }

    static let runloop = "runloop"

    /// Makes a battery whose functions become fields of the module `runloop` itself.
    public init(adding functions: @escaping @Sendable @autoclosure () -> Library) {
        self.init(Self.runloop, functions: functions())
    }

    /// Makes a module that is not available here; `require` raises `refusal`.
    public init(_ module: String, refusal: String) {
        self.init(module, functions: Library([])) { _ throws(Misuse) in throw Misuse(refusal) }
    }

    /// Whether this battery makes the public module.
    func makes(_ name: String) -> Bool { isPublic && module != Self.runloop && name == module }

    /// Whether this battery makes the private part.
    func makes(part name: String) -> Bool {
        if name == module { return !isPublic }
        return module != Self.runloop && name.utf8.starts(with: (module + ".").utf8) && Stack.hasModule(name)
    }
}

/// A library that is made at its first use and then used by all states. Its storage is never freed.
private final class LibraryOnce: @unchecked Sendable {
    // Sendable: `made` is used only under the lock. All libraries share one lock, since each lock would be an
    // allocation at start.
    private static let lock = Lock(false)
    private let make: @Sendable () -> Library
    private var made: Library?

    init(_ make: @escaping @Sendable () -> Library) { self.make = make }

    var library: Library {
        Self.lock.withLock { _ in
            if let made { return made }
            let new = make()
            made = new
            return new
        }
    }
}

/// For each module that a state has required: the anchored table of its Swift functions.
final class OpenedBatteries: HostPart {
    var functions: [String: UInt32] = [:]
}

extension LuaHost {
    /// Makes `require` find `runloop` and the batteries' modules.
    func openModules() -> Bool {
        // `runloop` is made when it is first required, so that a script without it does not pay for it.
        openModules(Self.openers) { LuaHost.publicModule(Call($0), 2) == nil ? 0 : 1 }
    }

    private static let openers = Library([
        .init("open") { Call.run($0, openRunloop) },
        .init("open_other") { state in
            Call.run(state) { call throws(Misuse) in try open(publicModule(call, 1), call) }
        },
        .init("open_part") { state in
            Call.run(state) { call throws(Misuse) in try open(privatePart(call), call) }
        },
    ])

    private static func publicModule(_ call: Call, _ name: Int32) -> Battery? {
        guard let name = call.string(name) else { return nil }
        return call.luaHost.batteries().first { $0.makes(name) }
    }

    private static func privatePart(_ call: Call) -> Battery? {
        guard let name = call.string(1) else { return nil }
        return shared.first { $0.makes(part: name) } ?? call.luaHost.batteries().first { $0.makes(part: name) }
    }

    /// Parts that several parts written in Lua use. Each state can load them.
    private static let shared =
        [MisuseBinding.battery, HintsBinding.battery, ThreadBinding.worker]
        + [
            "runloop.keywords", "runloop.inspect", "runloop.meanings", "runloop.objects", "runloop.reading",
            "runloop.text", "runloop.waiting_modes",
        ].map { Battery(part: $0) }

    /// Makes a module or a private part for `require`. Returns false if `battery` is nil.
    private static func open(_ battery: Battery?, _ call: Call) throws(Misuse) -> Int32 {
        guard let battery, let name = call.string(1) else { return call.answer(false) }
        let host = call.luaHost
        let opened = host.part(OpenedBatteries.self)
        let stack = call.stack
        guard stack.reserve(8) else { throw .noMemory }
        if opened.functions[battery.module] == nil {
            do throws(Misuse) {
                try battery.prepare(host)
            } catch {
                return call.raise(error.message)
            }
            // Every module uses the kinds and texts of `runloop`.
            if battery.isPublic, let message = host.requireRunloop() { return call.raise(message) }
            for kind in battery.kinds() where !call.define(kind) { return call.raiseValue() }
            guard call.push(battery.functions) else { return call.raiseValue() }
            let slot = stack.anchor(-1)
            guard slot != 0 else { throw .noMemory }
            opened.functions[battery.module] = slot
            stack.pop()
        }
        guard let functions = opened.functions[battery.module] else { return call.nothing() }
        guard Stack.hasModule(name) else {
            host.push(stack, slot: functions)
            return call.values(1)
        }
        guard stack.pushModule(name) else { return call.raiseValue() }
        host.push(stack, slot: functions)
        guard stack.pushInternals() else { return call.raiseValue() }
        return call.call(arguments: 2)
    }
}
