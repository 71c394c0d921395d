internal import Lua
internal import RunLoops

/// `loop:perform` on another thread's loop, and the methods of the request that it returns.
enum ThreadRequestBinding {
    static let methods: Library = Library(
        of: Kinds.threadRequest,
        [
            .init("cancel") { request($0).answer { $0.cancel() } },
            .init("invalidate") { request($0).answer { $0.cancel() } },
            .init("is_valid") { request($0).answer { $0.isQueued } },
            .init("name") { request($0).answer { _ in "" } },
            .init("__tostring") {
                request($0).answer {
                    "request (\($0.isQueued ? "queued" : "done or cancelled"), on another thread's loop)"
                }
            },
        ])

    private static func request(_ thread: OpaquePointer?) -> Receiver<ThreadRequest> {
        receiver(thread, ThreadRequest.self)
    }

    /// The new request is argument 1, the loop argument 2; function and arguments are in the parcel.
    static func perform(
        _ call: Call, _ box: Box, _ function: Parcel, _ wishes: RequestBinding.Wishes
    ) throws(Misuse) -> Int32 {
        guard let handle = call.stack.object(2, Kinds.loop, as: RunLoop.Handle.self) else { throw .noMemory }
        let modes = wishes.modes ?? [.common]
        let (later, order) = (wishes.delay, wishes.order)
        let host = call.luaHost
        let request = ThreadRequest(
            label: host.labelForOthers(box, at: call.site),
            site: wishes.waitsIn != nil && host.loop.isRecording ? host.site(call.site) : nil)
        box.hold(request)
        guard !modes.isEmpty else {
            request.cancel()
            return wishes.waitsIn != nil ? call.nothing() : call.answerArgument(1)
        }
        let ended = Misuse("the thread of this loop has ended")
        guard let name = wishes.waitsIn else {
            let place = ThreadRequest.Place(request)
            let isAccepted = handle.perform(in: later == nil ? modes : [.common], order: order) { loop in
                guard let target = loop.userInfo as? LuaHost else { return }
                guard let later else { return target.run(function, for: place.request, reply: nil) }
                target.runLater(function, for: place, after: later, modes: modes, order: order)
            }
            guard isAccepted else { throw ended }
            return call.answerArgument(1)
        }
        if let refusal = call.refusalToWait(in: name) { return refusal }
        guard handle.isAlive else { throw ended }
        guard
            let (number, replyModes) = host.beginExternalWait(in: name, timedOut: { request.cancel() })
        else { throw .noMemory }
        let reply = Reply(number, of: host.loop.handle, in: replyModes)
        handle.perform(in: modes, order: order) { loop in
            (loop.userInfo as? LuaHost)?.run(function, for: request, reply: reply)
        }
        return call.yield()
    }
}
