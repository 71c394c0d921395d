internal import CLuaSupport
internal import Linux
internal import Lua
internal import RunLoops

/// `loop:perform` on another thread's loop.
enum RemoteBinding {
    static let methods = Library([
        .init("cancel") { cancel(Call($0), "request:cancel") },
        .init("invalidate") { cancel(Call($0), "request:invalidate") },
        .init("is_valid") { isValid(Call($0)) },
        .init("name") { name(Call($0)) },
    ])

    /// (loop, modes, wait, after, order, fn, …): from fn on, all is in the parcel.
    static func perform(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard let handle = LoopBinding.handle(call), let function = call.takeParcel() else {
            return call.raiseOutOfMemory()
        }
        guard let modes = call.modes(2, otherwise: .common) else {
            return call.raise(
                "loop:perform: field 'modes' must be the name of a mode, or an array of them, got \(call.describe(2))")
        }
        let waits = call.boolean(3)
        var delay: Int64?
        if !call.isMissing(4) {
            guard let value = call.duration(4), !waits else {
                return call.raise(
                    waits
                        ? "loop:perform: 'wait' and 'after' exclude each other"
                        : "loop:perform: field 'after' must be a number of seconds, 0 or more, got \(call.describe(4))")
            }
            delay = value
        }
        guard call.isMissing(5) || call.integer(5) != nil else {
            return call.raise("loop:perform: field 'order' must be an integer, got \(call.describe(5))")
        }
        let order = call.integer(5) ?? 0
        let later = delay
        let request = RemoteRequest()
        guard !modes.isEmpty else {
            request.cancel()
            return waits ? call.nothing() : call.answer(request, Kinds.remoteRequest)
        }
        guard waits else {
            let place = RemoteRequest.Place(request)
            let isAccepted = handle.perform(in: later == nil ? modes : [.common], order: order) { loop in
                guard let target = loop.attachment as? LuaHost else { return }
                guard let later else { return target.run(function, for: place.request, reply: nil) }
                target.runLater(function, for: place, after: later, modes: modes, order: order)
            }
            guard isAccepted else { return call.raise(ended) }
            return call.answer(request, Kinds.remoteRequest)
        }
        if let refusal = call.refusalToWait(in: "loop:perform") { return refusal }
        guard handle.isAlive else { return call.raise(ended) }
        guard
            let (number, replyModes) = host.beginExternalWait(in: "loop:perform", timedOut: { request.cancel() })
        else { return call.raiseOutOfMemory() }
        let reply = Reply(number, of: host.loop.handle, in: replyModes)
        handle.perform(in: modes, order: order) { loop in
            (loop.attachment as? LuaHost)?.run(function, for: request, reply: reply)
        }
        return call.yield()
    }

    static let ended = "loop:perform: the thread of this loop has ended"

    private static func request(_ call: Call) -> RemoteRequest? {
        call.object(1, Kinds.remoteRequest, as: RemoteRequest.self)
    }

    private static func cancel(_ call: Call, _ function: StaticString) -> Int32 {
        guard let request = request(call) else { return call.wrongSelf(function, Kinds.remoteRequest) }
        return call.answer(request.cancel())
    }

    private static func isValid(_ call: Call) -> Int32 {
        guard let request = request(call) else { return call.wrongSelf("request:is_valid", Kinds.remoteRequest) }
        return call.answer(request.isQueued)
    }

    private static func name(_ call: Call) -> Int32 {
        guard request(call) != nil else { return call.wrongSelf("request:name", Kinds.remoteRequest) }
        return call.answer("")
    }

    static func describe(_ call: Call) -> Int32 {
        guard let request = request(call) else { return call.wrongSelf("request:__tostring", Kinds.remoteRequest) }
        return call.answer("request (\(request.isQueued ? "queued" : "done or cancelled"), on another thread's loop)")
    }
}

/// A request to another thread's loop.
final class RemoteRequest: Sendable {
    private let state = Lock(State())

    private struct State: Sendable {
        var isQueued = true
        /// Takes its timer out of the other loop.
        var withdraw: (@Sendable () -> Void)?
    }

    /// Its place in a loop. When that is dropped, with a loop that has ended, the request is no longer queued.
    final class Place: Sendable {
        let request: RemoteRequest
        init(_ request: RemoteRequest) { self.request = request }
        deinit { request.begin() }
    }

    var isQueued: Bool { state.withLock { $0.isQueued } }

    /// Whether it is to be done: it is asked for the first time, and has not been cancelled.
    @discardableResult
    func begin() -> Bool {
        state.withLock { state in
            defer { state.isQueued = false }
            return state.isQueued
        }
    }

    /// Whether it had not begun.
    @discardableResult
    func cancel() -> Bool {
        let (wasQueued, withdraw) = state.withLock { state in
            defer { state = State(isQueued: false) }
            return (state.isQueued, state.withdraw)
        }
        if wasQueued { withdraw?() }
        return wasQueued
    }

    /// Says what is to be done if it is cancelled. Returns false if it has been.
    func whenCancelled(_ body: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.isQueued { state.withdraw = body }
            return state.isQueued
        }
    }
}

/// The timer of a delayed request, for whoever cancels it.
private final class Later: @unchecked Sendable {
    // Sendable: used by the thread of its loop only.
    weak var timer: RunLoop.Timer?
}

/// The answer to a request that somebody waits for. Dropped without an answer, it says so: nobody waits for ever.
final class Reply: @unchecked Sendable {
    // Sendable: `isGiven` is used by the thread that performs the request, and by `deinit`.
    private let number: UInt64
    private let handle: RunLoop.Handle
    private let modes: [RunLoop.Mode]
    private var isGiven = false

    init(_ number: UInt64, of handle: RunLoop.Handle, in modes: [RunLoop.Mode]) {
        self.number = number
        self.handle = handle
        self.modes = modes
    }

    deinit {
        if !isGiven { give(.failure(nil, "loop:perform: the thread of this loop ended before the request was done")) }
    }

    func give(_ result: WaitResult) {
        isGiven = true
        LuaHost.end(number, of: handle, in: modes, with: result)
    }
}

extension LuaHost {
    /// Runs what another thread has sent.
    func run(_ function: Parcel, for request: RemoteRequest, reply: Reply?) {
        guard !isClosed, request.begin() else { return }
        guard let count = function.unpack(onto: main) else {
            let text = popMessage()
            if let reply { reply.give(.failure(nil, text)) } else { uncaught(text: text) }
            return
        }
        guard let reply else {
            guard let fiber = takeFiber(), lua_checkstack(fiber.thread, count + 4) != 0 else {
                return cl_pop(main, count)
            }
            lua_xmove(main, fiber.thread, count)
            return resume(fiber, arguments: count - 1)
        }
        _ = startPrepared(arguments: count - 1) { task in
            task.onResults = { thread, results in
                if let parcel = Parcel.pack(thread, from: lua_gettop(thread) - results + 1) {
                    reply.give(.values(parcel))
                } else {
                    let text = Call(thread).string(-1) ?? "the results cannot be sent"
                    reply.give(.failure(nil, "loop:perform: \(text)"))
                }
            }
            task.onError = { thread, text in
                lua_pushvalue(thread, -1)
                reply.give(.failure(Parcel.pack(thread, from: lua_gettop(thread)), text))
            }
        }
    }

    func runLater(
        _ function: Parcel, for place: RemoteRequest.Place, after delay: Int64, modes: [RunLoop.Mode], order: Int
    ) {
        let later = Later()
        let handle = loop.handle
        // Or a loop that has nothing else to do would wait for a request that nobody wants any more.
        let isWanted = place.request.whenCancelled {
            handle.perform(in: [.common] + modes) { _ in later.timer?.invalidate() }
        }
        guard isWanted else { return }
        let date = loop.now.nanoseconds + max(delay, 100_000)
        let timer = RunLoop.Timer(fireDate: .init(nanoseconds: date), order: order) { [unowned self] _, _ in
            run(function, for: place.request, reply: nil)
        }
        later.timer = timer
        for mode in modes { loop.add(timer, to: mode) }
    }
}
