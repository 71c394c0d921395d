internal import Linux
internal import Lua
internal import RunLoops

/// A request to another thread's loop.
final class ThreadRequest: Sendable {
    private let state = Lock(State())
    /// The number of the request's name in recordings; 0 for the general name.
    let label: UInt32
    /// The position in the script of the call that has made the request, if a task waits for its results.
    let site: String?

    init(label: UInt32, site: String? = nil) {
        self.label = label
        self.site = site
    }

    private struct State: Sendable {
        var isQueued = true
        /// Removes the request's timer from the other loop.
        var withdraw: (@Sendable () -> Void)?
    }

    /// Represents the request in the other loop's queue. When that loop ends, it drops this object, and the request is
    /// no longer queued.
    final class Place: Sendable {
        let request: ThreadRequest
        init(_ request: ThreadRequest) { self.request = request }
        deinit { request.begin() }
    }

    var isQueued: Bool { state.withLock { $0.isQueued } }

    /// Marks the request as begun. Returns true if the request must be performed: if it had not begun before and was
    /// not cancelled.
    @discardableResult
    func begin() -> Bool {
        state.withLock { state in
            defer { state.isQueued = false }
            return state.isQueued
        }
    }

    /// Cancels the request. Returns whether the request had not begun.
    @discardableResult
    func cancel() -> Bool {
        let (wasQueued, withdraw) = state.withLock { state in
            defer { state = State(isQueued: false) }
            return (state.isQueued, state.withdraw)
        }
        if wasQueued { withdraw?() }
        return wasQueued
    }

    /// Sets the function that a cancellation calls. Returns false if the request is not queued any more.
    func whenCancelled(_ body: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.isQueued { state.withdraw = body }
            return state.isQueued
        }
    }
}

/// The timer of a delayed request, for a cancellation.
private final class Later: @unchecked Sendable {
    // Sendable: used by the thread of its loop only.
    weak var timer: RunLoop.Timer?
}

/// The answer to a request for which a task waits. If it is dropped without an answer, the wait ends with an error, so
/// that no task waits for ever.
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
    /// Performs a request that another thread has sent.
    func run(_ function: Parcel, for request: ThreadRequest, reply: Reply?) {
        guard !isClosed, request.begin() else { return }
        guard let count = function.unpack(onto: stack) else {
            let text = popMessage()
            if let reply { reply.give(.failure(nil, text)) } else { report(Failure(text)) }
            return
        }
        guard let reply else {
            guard let fiber = takeFiber(), fiber.stack.reserve(count + 4) else { return stack.pop(count) }
            stack.move(count, to: fiber.stack)
            if request.label != 0, loop.isRecording { loop.recorder.pointee.name(request.label, fiber: fiber.number) }
            return resume(fiber, arguments: count - 1)
        }
        if request.label != 0, loop.isRecording { loop.recorder.pointee.name(request.label, fiber: 0) }
        _ = startPrepared(arguments: count - 1) { task in
            task.recordedAs = ("request", request.site ?? "")
            task.onResults = { stack, results in
                if let parcel = Parcel.pack(stack, from: stack.top - results + 1) {
                    reply.give(.values(parcel))
                } else {
                    let text = stack.string(-1) ?? "the results cannot be sent"
                    reply.give(.failure(nil, "loop:perform: \(text)"))
                }
            }
            task.onError = { [thread] stack, failure in
                stack.pushCopy(of: -1)
                var failure = failure
                let text = failure.traceback
                (failure.thread, failure.threadSite) = (thread?.name, thread?.site)
                reply.give(.failure(Parcel.pack(stack, from: stack.top), text, failure))
            }
        }
    }

    func runLater(
        _ function: Parcel, for place: ThreadRequest.Place, after delay: Int64, modes: [RunLoop.Mode], order: Int
    ) {
        let later = Later()
        let handle = loop.handle
        // A cancelled request must invalidate its timer, which would keep an idle loop alive.
        let isWanted = place.request.whenCancelled {
            handle.perform(in: [.common] + modes) { _ in later.timer?.invalidate() }
        }
        guard isWanted else { return }
        let date = loop.now + .nanoseconds(max(delay, 100_000))
        let timer = loop.callBack(at: date, order: order, in: modes) { [unowned self] _, _ in
            run(function, for: place.request, reply: nil)
        }
        timer.purpose = Self.sentRequest
        later.timer = timer
    }
}
