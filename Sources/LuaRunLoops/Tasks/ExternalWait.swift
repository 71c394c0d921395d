internal import CLuaSupport
internal import Lua
internal import RunLoops

/// A task's wait for something that another thread does.
///
/// Only its number travels: the other side performs `LuaHost.endWait` on this loop. While it lasts, an idle source keeps
/// the modes alive in which it can end; without it a loop with nothing else would finish.
final class ExternalWait {
    let fiber: Fiber
    let source: RunLoop.Source
    let modes: [RunLoop.Mode]
    var timer: RunLoop.Timer?
    /// Takes back what it waits for. Returns false if that has happened already, and word of it is on the way.
    var giveUp: (() -> Bool)?

    init(_ fiber: Fiber, modes: [RunLoop.Mode], name: String) {
        self.fiber = fiber
        self.modes = modes
        source = RunLoop.Source(name: name)
    }
}

/// What ends a wait.
enum WaitResult: Sendable {
    case values(Parcel)
    case failure(Parcel?, String)
    case thread(LuaThread)
    /// A message has been taken by its port; false: the port is no longer valid.
    case sent(Bool)
}

extension LuaHost {
    /// The running task waits. Its function must return `Call.yield`. Returns the wait's number.
    ///
    /// - Parameter timeout: nanoseconds; when they are over the task goes on with nil, "timed out".
    func beginExternalWait(
        in name: StaticString, timeout: Int64? = nil, timedOut: @escaping () -> Void = {}
    ) -> (number: UInt64, modes: [RunLoop.Mode])? {
        lastWait += 1
        let number = lastWait
        guard
            let fiber = beginWait(
                in: name,
                cancel: { [unowned self] _ in
                    _ = takeWait(number)?.giveUp?()
                    timedOut()
                })
        else { return nil }
        var modes = [RunLoop.Mode.common]
        if let mode = loop.currentMode, !loop.commonModeNames.contains(mode) { modes.append(mode) }
        let wait = ExternalWait(fiber, modes: modes, name: "\(name)")
        waits[number] = wait
        for mode in modes { loop.add(wait.source, to: mode) }
        if let timeout {
            let timer = RunLoop.Timer(fireDate: .init(nanoseconds: loop.now.nanoseconds + timeout)) {
                [unowned self] _, _ in
                guard waits[number]?.giveUp?() ?? true, let wait = takeWait(number) else { return }
                timedOut()
                resumeWithReason(wait.fiber, "timed out")
            }
            wait.timer = timer
            for mode in modes { loop.add(timer, to: mode) }
        }
        return (number, modes)
    }

    func takeWait(_ number: UInt64) -> ExternalWait? {
        guard let wait = waits.removeValue(forKey: number) else { return nil }
        wait.source.invalidate()
        wait.timer?.invalidate()
        return wait
    }

    /// For the other side: ends a wait of this handle's loop.
    static func end(_ number: UInt64, of handle: RunLoop.Handle, in modes: [RunLoop.Mode], with result: WaitResult) {
        handle.perform(in: modes) { loop in (loop.attachment as? LuaHost)?.endWait(number, with: result) }
    }

    private func endWait(_ number: UInt64, with result: WaitResult) {
        guard !isClosed else { return }
        guard let wait = takeWait(number) else { return }
        switch result {
        case .values(let parcel): resume(wait.fiber, with: parcel)
        case .failure(let parcel, let text): resume(wait.fiber, raising: parcel, text)
        case .thread(let thread):
            guard let outcome = thread.observe() else { return }
            let count = push(outcome, onto: wait.fiber.thread)
            resume(wait.fiber, arguments: count)
        case .sent(true):
            lua_pushboolean(wait.fiber.thread, 1)
            resume(wait.fiber, arguments: 1)
        case .sent(false): resumeWithReason(wait.fiber, "invalid")
        }
    }

    /// Values come to `main` first: a coroutine that waits is no place for calls.
    func push(_ parcel: Parcel, onto thread: OpaquePointer) -> Int32? {
        guard let count = parcel.unpack(onto: main), lua_checkstack(thread, count + 4) != 0 else { return nil }
        lua_xmove(main, thread, count)
        return count
    }

    func push(text: String, onto thread: OpaquePointer) {
        setScratch(text)
        if cl_push_text(main, host.pointee.scratch, host.pointee.length) == LUA_OK, lua_checkstack(thread, 4) != 0 {
            lua_xmove(main, thread, 1)
        } else {
            cl_pop(main, 1)
            lua_pushnil(thread)
        }
    }

    /// true, results… or false, error.
    func push(_ outcome: LuaThread.Outcome, onto thread: OpaquePointer) -> Int32 {
        switch outcome {
        case .results(let parcel):
            lua_pushboolean(thread, 1)
            if let count = push(parcel, onto: thread) { return count + 1 }
            lua_xmove(main, thread, 1)
            lua_pushboolean(thread, 0)
            lua_copy(thread, -1, -3)
            cl_pop(thread, 1)
            return 2
        case .failure(let parcel, let text):
            lua_pushboolean(thread, 0)
            if let parcel, let count = push(parcel, onto: thread) { return count + 1 }
            push(text: text, onto: thread)
            return 2
        }
    }

    func resumeWithReason(_ fiber: Fiber, _ reason: String) {
        guard lua_checkstack(fiber.thread, 4) != 0 else { return }
        lua_pushnil(fiber.thread)
        push(text: reason, onto: fiber.thread)
        resume(fiber, arguments: 2)
    }

    private func resume(_ fiber: Fiber, with parcel: Parcel) {
        if let count = push(parcel, onto: fiber.thread) { return resume(fiber, arguments: count) }
        // It could not be unpacked here: that is the error.
        lua_pushlightuserdata(fiber.thread, cl_raise_mark())
        lua_xmove(main, fiber.thread, 1)
        resume(fiber, arguments: 2)
    }

    private func resume(_ fiber: Fiber, raising parcel: Parcel?, _ text: String) {
        guard lua_checkstack(fiber.thread, 4) != 0 else { return }
        lua_pushlightuserdata(fiber.thread, cl_raise_mark())
        if let parcel, push(parcel, onto: fiber.thread) != nil { return resume(fiber, arguments: 2) }
        push(text: text, onto: fiber.thread)
        resume(fiber, arguments: 2)
    }
}
