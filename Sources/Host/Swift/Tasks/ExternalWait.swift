package import Linux
package import Lua
package import RunLoops

/// A task's wait for the work of another thread.
///
/// Only the wait's number is sent to the other thread, which then performs `LuaHost.endWait` on this loop. Meanwhile an
/// idle source is in the modes in which the wait can end: without this source, a loop that holds nothing else would
/// finish.
final class ExternalWait {
    let fiber: Fiber
    let source: RunLoop.Source
    let modes: [RunLoop.Mode]
    var timer: RunLoop.Timer?
    /// Withdraws the request. Returns false if the request was fulfilled already, and its result is on its way.
    var giveUp: (() -> Bool)?
    /// Whether a thread of this process will answer, in real time.
    var isForAnswer = false

    init(_ fiber: Fiber, modes: [RunLoop.Mode], name: String) {
        self.fiber = fiber
        self.modes = modes
        source = RunLoop.Source(name: name)
    }
}

/// The result that ends a wait.
package enum WaitResult: Sendable {
    case values(Parcel)
    /// An error: its value, if the value can be sent; its text; and the failure, if code has raised the error.
    case failure(Parcel?, String, Failure? = nil)
    case thread(LuaThread)
    /// Whether the port has taken the message; false if the port is no longer valid.
    case sent(Bool)
    /// One value, or an error of the system.
    case answer(Result<ValueProgram, SystemError>)
}

extension Call {
    /// Makes the running task wait for a result from another thread. `start` gets a function that the other thread has
    /// to call once.
    package func wait(
        in name: StaticString,
        for start: (@escaping @Sendable (Result<ValueProgram, SystemError>) -> Void) throws(SystemError) -> Void
    ) throws(Misuse) -> Int32 {
        if let refusal = refusalToWait(in: name) { return refusal }
        let host = luaHost
        guard let (number, modes) = host.beginExternalWait(in: name) else { throw .noMemory }
        host.waits.byNumber[number]?.isForAnswer = true
        WorkPool.noteAwaited(1)
        let handle = host.loop.handle
        let tell: @Sendable (Result<ValueProgram, SystemError>) -> Void = { result in
            LuaHost.end(number, of: handle, in: modes, with: .answer(result))
        }
        do throws(SystemError) {
            try start { result in
                WorkPool.awaitTurn?()
                tell(result)
            }
        } catch { tell(.failure(error)) }
        return yield()
    }
}

/// A state's waits for other threads and processes.
package final class ExternalWaits: HostPart {
    var byNumber: [UInt64: ExternalWait] = [:]
    var lastNumber: UInt64 = 0

    /// Whether one of the waits keeps the loop alive by this source.
    package func has(_ item: RunLoop.Item) -> Bool { byNumber.values.contains { $0.source === item } }
}

extension LuaHost {
    package var waits: ExternalWaits { part(ExternalWaits.self) }

    /// Makes the running task wait; the calling function must then return `Call.yield`. Returns the wait's number.
    ///
    /// - Parameters:
    ///   - timeout: nanoseconds, after which the task goes on with nil, "timed out".
    ///   - remark: a text that follows "timed out", as in "timed out: in string.find".
    package func beginExternalWait(
        in name: StaticString, timeout: Int64? = nil, timedOut: @escaping () -> Void = {},
        remark: (() -> String?)? = nil
    ) -> (number: UInt64, modes: [RunLoop.Mode])? {
        let waits = waits
        waits.lastNumber += 1
        let number = waits.lastNumber
        guard
            let fiber = beginWait(
                in: name,
                cancel: { [unowned self] _ in
                    _ = takeWait(number)?.giveUp?()
                    timedOut()
                })
        else { return nil }
        fiber.waitsSince = loop.latestDate.nanoseconds
        let modes = waitingModes
        let wait = ExternalWait(fiber, modes: modes, name: "\(name)")
        if fiber.isBackground {
            wait.source.keepsAlive = false
            wait.source.mayAnswer = true
        }
        waits.byNumber[number] = wait
        for mode in modes { loop.add(wait.source, to: mode) }
        if let timeout {
            wait.timer = loop.callBack(at: loop.now + .nanoseconds(timeout), in: modes) { [unowned self] _, _ in
                guard waits.byNumber[number]?.giveUp?() ?? true, let wait = takeWait(number) else { return }
                timedOut()
                resumeWithReason(wait.fiber, remark?().map { "timed out: \($0)" } ?? "timed out")
            }
            if fiber.isBackground { wait.timer?.keepsAlive = false }
        }
        return (number, modes)
    }

    func takeWait(_ number: UInt64) -> ExternalWait? {
        guard let wait = waits.byNumber.removeValue(forKey: number) else { return nil }
        wait.source.invalidate()
        wait.timer?.invalidate()
        if wait.isForAnswer { WorkPool.noteAwaited(-1) }
        return wait
    }

    /// Ends a wait of this handle's loop. Called on another thread.
    package static func end(
        _ number: UInt64, of handle: RunLoop.Handle, in modes: [RunLoop.Mode], with result: WaitResult
    ) {
        handle.perform(in: modes) { loop in (loop.userInfo as? LuaHost)?.endWait(number, with: result) }
    }

    private func endWait(_ number: UInt64, with result: WaitResult) {
        guard !isClosed else { return }
        guard let wait = takeWait(number) else { return }
        switch result {
        case .values(let parcel): resume(wait.fiber, with: parcel)
        case .failure(let parcel, let text, let failure): resume(wait.fiber, raising: parcel, text, failure)
        case .thread(let thread):
            guard let outcome = thread.observe() else { return }
            let count = push(outcome, of: thread, onto: wait.fiber.stack, in: wait.fiber)
            resume(wait.fiber, arguments: count)
        case .sent(true):
            wait.fiber.stack.push(true)
            resume(wait.fiber, arguments: 1)
        case .sent(false): resumeWithReason(wait.fiber, "invalid")
        case .answer(.success(let program)):
            guard stack.push(program), wait.fiber.stack.reserve(4) else {
                return resume(wait.fiber, raising: nil, popMessage(), nil)
            }
            stack.move(1, to: wait.fiber.stack)
            resume(wait.fiber, arguments: 1)
        case .answer(.failure(let error)):
            guard wait.fiber.stack.reserve(4) else { return }
            wait.fiber.stack.pushNil()
            push(text: error.description, onto: wait.fiber.stack)
            push(text: error.name, onto: wait.fiber.stack)
            resume(wait.fiber, arguments: 3)
        }
    }

    // Values are made on the main stack first, since calls are not allowed on the stack of a waiting coroutine.

    /// Pushes the values of a parcel, and returns their number; nil on failure, with the error on the main stack.
    func push(_ parcel: Parcel, onto stack: Stack) -> Int32? {
        guard let count = parcel.unpack(onto: self.stack), stack.reserve(count + 4) else { return nil }
        self.stack.move(count, to: stack)
        return count
    }

    /// Pushes a string, or nil if there is no memory.
    func push(text: String, onto stack: Stack) {
        if text.withAnyBytes({ push($0, onto: stack) }) { return }
        stack.pushNil()
    }

    /// Pushes a string of bytes. Pushes nothing and returns false if there is no memory.
    func push(bytes: [UInt8], onto stack: Stack) -> Bool { bytes.withUnsafeBytes { push($0, onto: stack) } }

    private func push(_ bytes: UnsafeRawBufferPointer, onto stack: Stack) -> Bool {
        guard self.stack.push(bytes), stack.reserve(4) else {
            self.stack.pop()
            return false
        }
        self.stack.move(1, to: stack)
        return true
    }

    /// Pushes the outcome of a thread for a fiber that waits for its end: true and the results, or false and the error.
    func push(_ outcome: LuaThread.Outcome, of thread: LuaThread, onto stack: Stack, in fiber: Fiber?) -> Int32 {
        let count = push(outcome, onto: stack)
        if case .failure(_, var failure) = outcome, count > 0 {
            failure.threadSite = thread.site
            trails.arrived(failure, on: stack, to: fiber)
        }
        return count
    }

    /// Pushes true and the results, or false and the error.
    private func push(_ outcome: LuaThread.Outcome, onto stack: Stack) -> Int32 {
        switch outcome {
        case .results(let parcel):
            stack.push(true)
            if let count = push(parcel, onto: stack) { return count + 1 }
            stack.pop()
            stack.push(false)
            self.stack.move(1, to: stack)
            return 2
        case .failure(let parcel, let failure):
            stack.push(false)
            if let parcel {
                if let count = push(parcel, onto: stack) { return count + 1 }
                self.stack.pop()
            }
            push(text: failure.text, onto: stack)
            return 2
        }
    }

    /// Resumes a waiting fiber with an error that has this text.
    package func resume(_ fiber: Fiber, raising text: String) {
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.pushRaiseMark()
        push(text: text, onto: fiber.stack)
        resume(fiber, arguments: 2)
    }

    func resumeWithReason(_ fiber: Fiber, _ reason: String) {
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.pushNil()
        push(text: reason, onto: fiber.stack)
        resume(fiber, arguments: 2)
    }

    private func resume(_ fiber: Fiber, with parcel: Parcel) {
        if let count = push(parcel, onto: fiber.stack) { return resume(fiber, arguments: count) }
        // Raise the error of unpacking instead.
        fiber.stack.pushRaiseMark()
        stack.move(1, to: fiber.stack)
        resume(fiber, arguments: 2)
    }

    private func resume(_ fiber: Fiber, raising parcel: Parcel?, _ text: String, _ failure: Failure?) {
        guard fiber.stack.reserve(4) else { return }
        fiber.stack.pushRaiseMark()
        var isPushed = false
        if let parcel {
            isPushed = push(parcel, onto: fiber.stack) != nil
            if !isPushed { stack.pop() }
        }
        if !isPushed { push(text: text, onto: fiber.stack) }
        if let failure { trails.arrived(failure, on: fiber.stack, to: fiber) }
        resume(fiber, arguments: 2)
    }
}
