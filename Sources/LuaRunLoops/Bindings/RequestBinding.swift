internal import CLuaSupport
internal import Lua
internal import RunLoops

/// `loop:perform`, `rl.perform`, `rl.cancel_performs` and the methods of requests.
///
/// A request's userdata keeps the function in its first user value and the arguments in the further ones; it is anchored
/// until it has run.
enum RequestBinding {
    static let methods = Library([
        .init("cancel") { cancel(Call($0), "request:cancel") },
        .init("invalidate") { cancel(Call($0), "request:invalidate") },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
    ])

    enum State { static let queued: UInt32 = 0, done: UInt32 = 1, cancelled: UInt32 = 2 }

    private static let names: [StaticString] = ["modes", "wait", "after", "order"]

    /// The number of its token, behind the box; 0: it is a delayed one.
    private static func number(_ box: UnsafeMutablePointer<cl_box>) -> UnsafeMutablePointer<UInt64> {
        UnsafeMutableRawPointer(box + 1).assumingMemoryBound(to: UInt64.self)
    }

    /// loop:perform(fn, …), loop:perform{ fn, …, options }; the new request is argument 1.
    ///
    /// - Parameter loop: the argument that is the loop; 0: the current one.
    static func perform(_ call: Call, _ function: StaticString, self loop: Int32) -> Int32 {
        call.withHost { perform(call, $0, function, loop) }
    }

    private static func perform(_ call: Call, _ host: LuaHost, _ function: StaticString, _ loop: Int32) -> Int32 {
        guard let box = call.constructed else { return call.nothing() }
        let thread = call.thread
        if loop != 0 {
            guard let handle = LoopBinding.handle(call, loop) else {
                lua_copy(thread, loop, 1)
                return call.wrongSelf(function, Kinds.loop)
            }
            guard handle === host.loop.handle else { return performFromAfar(call, host, loop) }
        }
        let first = loop + (loop == 0 ? 2 : 1)
        var modes: [RunLoop.Mode]?
        var delay: Int64?
        var order = 0
        var waits = false
        if call.type(first) == LUA_TTABLE {
            let options: Options
            switch Options.read(call, first, of: function, names, positional: true) {
            case .success(let read): options = read
            case .failure(let misuse): return call.raise(misuse.message)
            }
            func bad(_ field: Int, _ expected: String) -> Int32 { call.raise(options.wrong(field, expected).message) }
            guard let named = call.modes(options.index(0), otherwise: .common) else {
                return bad(0, "the name of a mode, or an array of them")
            }
            modes = named
            guard options.isMissing(1) || call.type(options.index(1)) == LUA_TBOOLEAN else {
                return bad(1, "a boolean")
            }
            waits = call.boolean(options.index(1))
            if !options.isMissing(2) {
                guard let value = call.duration(options.index(2)) else {
                    return bad(2, "a number of seconds, 0 or more")
                }
                guard !waits else { return call.raise("\(function): 'wait' and 'after' exclude each other") }
                delay = value
            }
            if !options.isMissing(3) {
                guard let value = call.integer(options.index(3)) else { return bad(3, "an integer") }
                order = value
            }
            guard lua_rawgeti(thread, first, 1) == LUA_TFUNCTION else {
                return call.raise("\(function): the first element must be a function, got \(call.describe(-1))")
            }
        } else {
            guard call.type(first) == LUA_TFUNCTION else {
                return call.raise("\(function): argument #1 must be a function, got \(call.describe(first))")
            }
            lua_pushvalue(thread, first)
        }
        if waits {
            // On its own thread: at once, whatever the mode.
            let spread = Int32(box.pointee.spread)
            guard lua_checkstack(thread, spread + 4) != 0 else { return call.raiseOutOfMemory() }
            for i in 0..<spread { lua_getiuservalue(thread, 1, 2 + i) }
            return call.call(arguments: spread)
        }
        lua_setiuservalue(thread, 1, 1)
        box.pointee.site = cl_site_of_caller(thread)
        guard modes?.isEmpty != true else {
            box.pointee.flags = State.cancelled
            return call.answerArgument(1)
        }
        let slot = host.anchor(thread, 1)
        guard slot != 0 else { return call.raiseOutOfMemory() }
        box.pointee.slot = slot
        if let delay {
            host.performLater(slot, after: delay, modes: modes ?? [.common], order: order)
        } else if let modes {
            number(box).pointee = host.loop.perform(host.requests, Int(slot), in: modes, order: order)?.number ?? 0
        } else {
            number(box).pointee = host.loop.perform(host.requests, Int(slot)).number
        }
        return call.answerArgument(1)
    }

    /// Another thread's loop: what is to be performed there must be packed, by a function in Lua that takes the options
    /// apart.
    private static func performFromAfar(_ call: Call, _ host: LuaHost, _ first: Int32) -> Int32 {
        let count = call.count - first + 1
        guard let hook = host.hooks["perform_from_afar"], lua_checkstack(call.thread, count + 4) != 0 else {
            return call.raiseOutOfMemory()
        }
        host.push(call.thread, slot: hook)
        for index in first..<(first + count) { lua_pushvalue(call.thread, index) }
        return call.call(arguments: count)
    }

    /// rl.cancel_performs(fn, …): drops the delayed requests of this loop with this function, and, where given, these
    /// arguments. Answers how many.
    static func cancelPerforms(_ call: Call) -> Int32 {
        let thread = call.thread
        guard call.type(1) == LUA_TFUNCTION else {
            return call.wrongArgument("rl.cancel_performs", 1, "a function")
        }
        let count = call.count
        let host = call.luaHost
        guard lua_checkstack(thread, 6) != 0 else { return call.raiseOutOfMemory() }
        var cancelled = 0
        for slot in host.delayed.keys.sorted() {
            host.push(thread, slot: slot)
            let matches = isSame(call, -1, 1, 1) && (count == 1 || hasArguments(call, count))
            cl_pop(thread, 1)
            guard matches else { continue }
            host.cancelDelayed(slot)
            cancelled += 1
        }
        return call.answer(cancelled)
    }

    // The request is on top of the stack.
    private static func hasArguments(_ call: Call, _ count: Int32) -> Bool {
        guard let box = call.box(-1, Kinds.request), box.pointee.spread == UInt32(count) - 1 else { return false }
        for i in 2...count where !isSame(call, -1, i, i) { return false }
        return true
    }

    private static func isSame(_ call: Call, _ object: Int32, _ value: Int32, _ index: Int32) -> Bool {
        defer { cl_pop(call.thread, 1) }
        lua_getiuservalue(call.thread, object, value)
        return lua_rawequal(call.thread, -1, index) != 0
    }

    private static func cancel(_ call: Call, _ function: StaticString) -> Int32 {
        guard let box = call.box(1, Kinds.request) else { return call.wrongSelf(function, Kinds.request) }
        guard box.pointee.flags == State.queued else { return call.answer(false) }
        let host = call.luaHost
        let number = number(box).pointee
        guard number == 0 else { return call.answer(host.loop.cancel(.init(number: number))) }
        return call.answer(host.cancelDelayed(box.pointee.slot))
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let box = call.box(1, Kinds.request) else { return call.wrongSelf("request:is_valid", Kinds.request) }
        return call.answer(box.pointee.flags == State.queued)
    }

    private static func name(_ call: Call) -> Int32 {
        guard call.box(1, Kinds.request) != nil else { return call.wrongSelf("request:name", Kinds.request) }
        return call.answer("")
    }

    static func describe(_ call: Call) -> Int32 {
        guard let box = call.box(1, Kinds.request) else { return call.wrongSelf("request:__tostring", Kinds.request) }
        let state = ["queued", "done", "cancelled"][Int(min(2, box.pointee.flags))]
        let site = call.luaHost.site(box.pointee.site).map { ", made at \($0)" } ?? ""
        return call.answer("request (\(state)\(site))")
    }
}

/// Runs the perform requests of one state. The context is the slot of the request's userdata.
final class LuaRequests: RunLoop.RequestOwner {
    // It owns us, and outlives us. A plain reference, even an unowned one, would be counted at each callback.
    var host: Unmanaged<LuaHost>! = nil

    override func perform(_ context: Int) { host._withUnsafeGuaranteedRef { $0.runRequest(UInt32(context)) } }
    override func drop(_ context: Int) {
        host._withUnsafeGuaranteedRef { $0.finishRequest(UInt32(context), RequestBinding.State.cancelled) }
    }
}

extension LuaHost {
    /// Calls the request's function. Its userdata is let go first: the fiber's stack has it.
    func runRequest(_ slot: UInt32) {
        guard !isClosed else { return }
        guard let (fiber, head) = prepareCallback(slot: slot) else {
            return finishRequest(slot, RequestBinding.State.done)
        }
        let box = head.assumingMemoryBound(to: cl_box.self)  // slots of requests hold nothing else
        let spread = Int32(box.pointee.spread)
        if spread > 0, !pushSpread(box, from: 2, onto: fiber) {
            recycle(fiber)
            finishRequest(slot, RequestBinding.State.cancelled)
            return uncaught(text: "not enough memory")
        }
        box.pointee.flags = RequestBinding.State.done
        box.pointee.slot = 0
        fiber.subject = 0
        release(slot)
        resume(fiber, arguments: spread)
    }

    func finishRequest(_ slot: UInt32, _ state: UInt32) {
        guard !isClosed else { return }
        push(main, slot: slot)
        if let box = cl_box_at(main, -1, Kinds.request.record) {
            box.pointee.flags = state
            box.pointee.slot = 0
        }
        cl_pop(main, 1)
        release(slot)
    }

    func performLater(_ slot: UInt32, after delay: Int64, modes: [RunLoop.Mode], order: Int) {
        // Zero still means a later pass, as for NSTimer: a tenth of a millisecond.
        let date = loop.now.nanoseconds + max(delay, 100_000)
        let timer = RunLoop.Timer(fireDate: .init(nanoseconds: date), order: order) { [unowned self] timer, _ in
            timer.invalidate()  // its function may run the loop, which is not to go on for this timer's sake
            delayed[slot] = nil
            runRequest(slot)
        }
        delayed[slot] = timer
        for mode in modes { loop.add(timer, to: mode) }
    }

    @discardableResult
    func cancelDelayed(_ slot: UInt32) -> Bool {
        guard let timer = delayed.removeValue(forKey: slot) else { return false }
        timer.invalidate()
        finishRequest(slot, RequestBinding.State.cancelled)
        return true
    }
}
