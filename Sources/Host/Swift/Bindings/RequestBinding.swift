internal import Lua
package import RunLoops

/// `loop:perform`, `rl.perform`, `rl.cancel_performs` and the methods of requests.
///
/// A request's userdata has the function as its first user value, and the arguments as further user values. The
/// userdata is anchored until the request has run. A request to another thread's loop is a `ThreadRequest`.
enum RequestBinding {
    static let methods: Library = Library(
        of: Kinds.request,
        [
            .init("cancel") { request($0).run { request, call in cancel(request, call) } },
            .init("invalidate") { request($0).run { request, call in cancel(request, call) } },
            .init("is_valid") { request($0).answer { $0.flags == State.queued } },
            .init("name") { request($0).answer { _ in "" } },
            .init("__tostring") { request($0).run { request, call in call.answer(text(request, call)) } },
        ])

    private static func request(_ thread: OpaquePointer?) -> Receiver<Box> {
        let call = Call(thread)
        return Receiver(call, call.receiver)
    }

    enum State { static let queued: UInt32 = 0, done: UInt32 = 1, cancelled: UInt32 = 2 }

    private static let callback = ItemBinding.Value.callback.number

    /// The number of the request's token, which follows the box in memory; 0 for a delayed request.
    private static func number(_ box: Box) -> UnsafeMutablePointer<UInt64> { box.payload(as: UInt64.self) }

    private enum Option: Int, Field {
        case modes, wait, after, order
        static let names: [StaticString] = ["modes", "wait", "after", "order"]
    }

    /// The options of a request.
    struct Wishes {
        /// nil if the option is absent.
        var modes: [RunLoop.Mode]?
        var delay: Int64?
        var order = 0
        /// The name of the wait in messages, if the caller waits.
        var waitsIn: StaticString?
    }

    /// The option `wait`. The host's own modules pass the name of the function that the script has called.
    private enum Waiting: Parameter {
        static var expected: String { Boolean.expected }
        static func read(_ stack: Stack, _ index: Int32) -> StaticString?? {
            if let name = stack.string(index).flatMap({ WaitName.of($0) }) { return .some(name) }
            return Boolean.read(stack, index).map { waits -> StaticString? in waits ? "loop:perform" : nil }
        }
    }

    /// rl.perform(fn, …), rl.perform{ fn, …, options }; the new request is argument 1.
    static func performHere(_ call: Call) throws(Misuse) -> Int32 { try perform(call, loop: 0) }

    /// loop:perform(fn, …), loop:perform{ fn, …, options }; the new request is argument 1, the loop argument 2.
    static func performThere(_ call: Call) throws(Misuse) -> Int32 { try perform(call, loop: 2) }

    private static func perform(_ call: Call, loop: Int32) throws(Misuse) -> Int32 {
        let box = call.receiver
        let stack = call.stack
        let first = loop + (loop == 0 ? 2 : 1)
        let isAfar = box.is(Kinds.threadRequest)
        if !isAfar, stack.type(first) == .function { return try performSoon(call, box, first) }
        let parcel = isAfar ? call.takeParcel() : nil
        var wishes = Wishes()
        if stack.type(first) == .table {
            wishes = try read(call, first)
        } else {
            stack.pushCopy(of: try call.argument(first, Function.self))
        }
        if isAfar {
            guard let parcel else { throw .noMemory }
            return try ThreadRequestBinding.perform(call, box, parcel, wishes)
        }
        guard wishes.waitsIn == nil else {
            // A request for the calling thread's own loop runs at once, in any mode.
            guard stack.reserve(box.spread + 4) else { throw .noMemory }
            for i in 0..<box.spread { stack.pushUserValue(callback + 1 + i, of: 1) }
            return call.call(arguments: box.spread)
        }
        stack.setUserValue(callback, of: 1)
        box.site = call.site
        guard wishes.modes?.isEmpty != true else {
            box.flags = State.cancelled
            return call.answerArgument(1)
        }
        let slot = stack.anchor(1)
        guard slot != 0 else { throw .noMemory }
        box.slot = slot
        call.withHost { host in
            let modes = wishes.modes ?? [.common]
            if let delay = wishes.delay {
                host.performLater(slot, after: delay, modes: modes, order: wishes.order)
            } else {
                let token = host.loop.perform(host.requests, Int(slot), in: modes, order: wishes.order)
                number(box).pointee = token?.number ?? 0
            }
        }
        return call.answerArgument(1)
    }

    /// Performs a function without options, in the next pass in a common mode: the usual case.
    private static func performSoon(_ call: Call, _ box: Box, _ function: Int32) throws(Misuse) -> Int32 {
        let stack = call.stack
        stack.pushCopy(of: function)
        stack.setUserValue(callback, of: 1)
        box.site = call.site
        let slot = stack.anchor(1)
        guard slot != 0 else { throw .noMemory }
        box.slot = slot
        number(box).pointee = call.withHost { $0.loop.perform($0.requests, Int(slot)).number }
        return call.answerArgument(1)
    }

    /// Reads the options, and pushes the function.
    private static func read(_ call: Call, _ index: Int32) throws(Misuse) -> Wishes {
        let options = try call.fields(index, Option.self, positional: true)
        var wishes = Wishes()
        wishes.modes = try options[.modes, ModeNames.self] ?? [.common]
        wishes.waitsIn = try options[.wait, Waiting.self] ?? nil
        wishes.delay = try options[.after, Seconds.self]
        if wishes.waitsIn != nil, wishes.delay != nil { throw Misuse("'wait' and 'after' exclude each other") }
        wishes.order = try options[.order, Integer.self] ?? 0
        guard call.stack.pushElement(1, of: index) == .function else {
            throw Misuse("the first element must be a function, got \(call.stack.describe(-1))")
        }
        return wishes
    }

    /// rl.cancel_performs(fn, …): drops the delayed requests of this loop with this function and, if given, these
    /// arguments, which are compared by `==`. Returns their number. Takes time in proportion to the requests with the
    /// function.
    static func cancelPerforms(_ call: Call) throws(Misuse) -> Int32 {
        let function = call.stack.identity(try call.argument(1, Function.self))
        let count = call.count
        let host = call.luaHost
        guard call.stack.reserve(6) else { throw .noMemory }
        var matching: [UInt32] = []
        for slot in host.part(DelayedRequests.self).slots(of: function) {
            if count > 1 {
                // A metamethod that compared another request may have cancelled this one.
                guard host.part(DelayedRequests.self).contains(slot, of: function) else { continue }
                guard let matches = hasArguments(call, host, slot, count) else { return call.raiseValue() }
                guard matches else { continue }
            }
            matching.append(slot)
        }
        return call.answer(
            matching.count { host.part(DelayedRequests.self).contains($0, of: function) && host.cancelDelayed($0) })
    }

    /// If a comparison raises an error, returns nil with the error on top of the stack.
    private static func hasArguments(_ call: Call, _ host: LuaHost, _ slot: UInt32, _ count: Int32) -> Bool? {
        let stack = call.stack
        host.push(stack, slot: slot)
        let request = stack.top
        defer { if stack.top == request { stack.pop() } }
        guard let box = stack.box(request, Kinds.request), box.spread == count - 1 else { return false }
        for i in 2...count {
            stack.pushUserValue(i, of: request)
            guard let isEqual = stack.isEqual(request + 1, i) else { return nil }
            stack.pop()
            guard isEqual else { return false }
        }
        return true
    }

    private static func cancel(_ request: Box, _ call: Call) -> Int32 {
        guard request.flags == State.queued else { return call.answer(false) }
        let host = call.luaHost
        let number = number(request).pointee
        guard number == 0 else { return call.answer(host.loop.cancel(.init(number: number))) }
        return call.answer(host.cancelDelayed(request.slot))
    }

    private static func text(_ request: Box, _ call: Call) -> String {
        let state = ["queued", "done", "cancelled"][Int(min(2, request.flags))]
        return String("request", [state], site: call.luaHost.site(request.site))
    }
}

/// Runs the perform requests of one state. The context is the slot of the request's userdata.
package final class LuaRequests: RunLoop.RequestOwner {
    // Unmanaged: the host owns this object and outlives it, and a plain reference, even an unowned one, would be
    // counted at each callback.
    var host: Unmanaged<LuaHost>! = nil

    package override func perform(_ context: Int) { host._withUnsafeGuaranteedRef { $0.runRequest(UInt32(context)) } }
    package override func drop(_ context: Int) {
        host._withUnsafeGuaranteedRef { $0.finishRequest(UInt32(context), RequestBinding.State.cancelled) }
    }
}

/// A state's delayed perform requests that have not run, by slot, and chained by function, so that a cancellation
/// visits only the requests of its function.
private final class DelayedRequests: HostPart {
    private struct Place {
        let timer: RunLoop.Timer
        let function: UInt
        var next: UInt32  // 0 means none
        var previous: UInt32
    }

    private var places: [UInt32: Place] = [:]
    private var newest: [UInt: UInt32] = [:]  // by function

    func add(_ slot: UInt32, _ timer: RunLoop.Timer, function: UInt) {
        let next = newest.updateValue(slot, forKey: function) ?? 0
        if next != 0 { places[next]?.previous = slot }
        places[slot] = Place(timer: timer, function: function, next: next, previous: 0)
    }

    func remove(_ slot: UInt32) -> RunLoop.Timer? {
        guard let place = places.removeValue(forKey: slot) else { return nil }
        if place.next != 0 { places[place.next]?.previous = place.previous }
        if place.previous != 0 {
            places[place.previous]?.next = place.next
        } else {
            newest[place.function] = place.next == 0 ? nil : place.next
        }
        return place.timer
    }

    func contains(_ slot: UInt32, of function: UInt) -> Bool { places[slot]?.function == function }

    /// Takes time in proportion to the slots of the function.
    func slots(of function: UInt) -> [UInt32] {
        var slots: [UInt32] = []
        var slot = newest[function] ?? 0
        while slot != 0, let place = places[slot] {
            slots.append(slot)
            slot = place.next
        }
        return slots
    }

    override func willClose() { reset() }
    override func reset() {
        places = [:]
        newest = [:]
    }
}

extension LuaHost {
    /// Calls the request's function. First releases the anchor of the userdata, which the fiber's stack then keeps
    /// alive.
    func runRequest(_ slot: UInt32) {
        guard !isClosed else { return }
        guard let (fiber, box) = prepareCallback(slot: slot) else {
            return finishRequest(slot, RequestBinding.State.done)
        }
        let spread = box.spread
        if spread > 0, !pushSpread(box, from: 2, onto: fiber) {
            recycle(fiber)
            finishRequest(slot, RequestBinding.State.cancelled)
            return report(Failure("not enough memory"))
        }
        tellSubject(box, fiber)
        box.flags = RequestBinding.State.done
        box.slot = 0
        fiber.subject = 0
        release(slot)
        resume(fiber, arguments: spread)
    }

    func finishRequest(_ slot: UInt32, _ state: UInt32) {
        guard !isClosed else { return }
        push(stack, slot: slot)
        if let box = stack.box(-1, Kinds.request) {
            box.flags = state
            box.slot = 0
        }
        stack.pop()
        release(slot)
    }

    func performLater(_ slot: UInt32, after delay: Int64, modes: [RunLoop.Mode], order: Int) {
        // A delay of zero still means a later pass, as for NSTimer: a tenth of a millisecond.
        let date = loop.now + .nanoseconds(max(delay, 100_000))
        let timer = loop.callBack(at: date, order: order, in: modes) { [unowned self] timer, _ in
            timer.invalidate()  // the function may run the loop, and this timer must not keep that run going
            _ = part(DelayedRequests.self).remove(slot)
            runRequest(slot)
        }
        timer.purpose = Int(slot)
        push(stack, slot: slot)
        stack.pushUserValue(ItemBinding.Value.callback.number, of: -1)
        part(DelayedRequests.self).add(slot, timer, function: stack.identity(-1))
        stack.pop(2)
    }

    /// The `purpose` of timers for delayed requests from other threads. For a request of this thread, the timer's
    /// `purpose` is the request's slot.
    static let sentRequest = -1

    /// Returns whether a timer belongs to a delayed request. Also returns the request's creation site, if this thread
    /// knows it.
    func delayedRequest(_ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> (isOne: Bool, site: String?) {
        guard let timer = RunLoop.Timer.of(node), timer.purpose != 0 else { return (false, nil) }
        guard let slot = UInt32(exactly: timer.purpose) else { return (true, nil) }
        push(stack, slot: slot)
        defer { stack.pop() }
        return (true, stack.box(-1, Kinds.request).flatMap { site($0.site) })
    }

    @discardableResult
    func cancelDelayed(_ slot: UInt32) -> Bool {
        guard let timer = part(DelayedRequests.self).remove(slot) else { return false }
        timer.invalidate()
        finishRequest(slot, RequestBinding.State.cancelled)
        return true
    }
}
