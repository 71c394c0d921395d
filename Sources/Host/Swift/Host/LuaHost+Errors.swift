package import Lua
internal import RunLoops

/// The handler that `rl.on_error` has set.
final class ErrorHandler: HostPart {
    /// The anchored function, or 0.
    var function: UInt32 = 0 {
        didSet { host.release(oldValue) }
    }

    override func reset() { function = 0 }
}

/// Errors that no code handles. The host reports them to the script's handler, or to its owner's `onUncaught`.
extension LuaHost {
    /// Returns the failure for the error value on top of a fiber's stack, with the fiber's subject.
    func failure(of fiber: Fiber) -> Failure { failure(of: fiber, explanation(of: fiber.stack)) }

    /// Returns the failure of a chunk's fiber, with the error value on top of its stack; nil if the chunk has ended
    /// well.
    func failure(of fiber: Fiber, results: Int32) -> Failure? {
        guard results >= 0 else { return failure(of: fiber) }
        return explanation(ofChunk: fiber.stack, results: results).map { failure(of: fiber, $0) }
    }

    private func failure(of fiber: Fiber, _ explanation: Explanation) -> Failure {
        let cause: Failure.Cause =
            explanation.isInterruption ? .interrupted : isCancelled(fiber.stack) ? .cancelled : .raised
        if fiber.carriesError, let trail = trails.carried(by: fiber) { return trail.failure(self) }
        return Failure(explanation.message, frames: explanation.frames, subject: subject(of: fiber), cause: cause)
    }

    /// Closes the pending to-be-closed variables of a failed fiber. Comes before the report, since the report's
    /// receiver may end the process. If closing a variable raises an error, Lua replaces the error value; the failure
    /// then names both errors.
    func closeVariables(of fiber: Fiber, after failure: inout Failure) {
        let stack = fiber.stack
        let value = stack.reserve(4) ? stack.anchor(-1) : 0
        unwind(fiber)
        guard value != 0, stack.reserve(4) else { return }
        defer { release(value) }
        push(stack, slot: value)
        defer { stack.pop() }
        guard !stack.isSame(-1, -2) else { return }
        stack.pushCopy(of: -2)
        let message = explanation(of: stack).message
        stack.pop()
        failure.message = "\(message), in closing a variable after: \(failure.message)"
    }

    /// The chunk name of all code from attached users. They share one name, since creation sites are never freed.
    package static let guestChunkName = "(attach)"

    /// Returns what a fiber runs.
    package func subject(of fiber: Fiber) -> Failure.Subject? {
        guard let kind = fiber.subjectKind else { return nil }
        if let text = servedBy(fiber) {
            return Failure.Subject(kind: text, isGuest: place(fiber.subjectSite)?.source == Self.guestChunkName)
        }
        let name = fiber.subject == 0 ? (fiber.owner as? LuaTask)?.name ?? "" : nameOfAnchored(fiber.subject) ?? ""
        return subject(
            kind: name.isEmpty ? titleOfAnchored(fiber.subject) ?? kind : kind, name: name, site: fiber.subjectSite)
    }

    func subject(kind: String, name: String, site: UInt32) -> Failure.Subject {
        let place = place(site)
        return Failure.Subject(
            kind: kind, name: name, site: place.map { "\($0.source):\($0.line)" },
            isGuest: place?.source == Self.guestChunkName)
    }

    /// Reports an error that nobody handles.
    ///
    /// - Parameter source: a coroutine with the error value on top of its stack; nil if there is only the failure.
    func report(_ failure: Failure, of source: Stack?, mayCallHandler: Bool = true) {
        if parts.contains(where: { $0.hasCaused(failure) }) { return write("rlhost: \(failure.text)\n", to: 2) }
        if mayCallHandler, callHandler(failure, of: source) { return }
        // A mistake of an attached user must not end the process.
        if failure.subject?.isGuest == true { return write("rlhost: \(failure.text)\n", to: 2) }
        uncaughtValue = source
        defer { uncaughtValue = nil }
        onUncaught(self, failure)
    }

    /// At a greater depth of nested callbacks, do not call the handler: Lua allows two hundred nested C functions, and
    /// each callback takes up to three.
    static let deepestReport = 50

    /// Calls the handler in the next pass, after all callbacks in progress have ended. Returns false if there is no
    /// handler or no memory.
    func reportLater(_ failure: Failure, of fiber: Fiber) -> Bool {
        guard existingPart(ErrorHandler.self)?.function ?? 0 != 0, case let value = anchor(fiber.thread, -1), value != 0
        else { return false }
        loop.perform { [unowned(unsafe) loop] in
            guard let host = loop.userInfo as? LuaHost, host.stack.reserve(2) else { return }
            defer { host.release(value) }
            host.push(host.stack, slot: value)
            host.report(failure, of: host.stack)
            host.stack.pop()
        }
        return true
    }

    /// Reports an error that was found where no Lua code runs, or in another thread.
    ///
    /// - Parameter value: the error value, if it can be sent.
    func report(_ failure: Failure, value: Parcel? = nil) {
        guard let value, stack.reserve(4) else { return report(failure, of: nil) }
        let top = stack.top
        report(failure, of: value.unpack(onto: stack) == 1 ? stack : nil)
        stack.top = top
    }

    /// Packs an error value on top of a coroutine's stack for other threads; nil if it cannot be sent.
    func pack(errorOn source: Stack?) -> Parcel? {
        guard let source, source.reserve(1) else { return nil }
        source.pushCopy(of: -1)
        if let parcel = Parcel.pack(source, from: source.top) { return parcel }
        source.pop()
        return nil
    }

    /// Passes a failure that no Lua code has raised to the handler of `rl.on_error`. Returns false if there is no
    /// handler.
    package func tellHandler(_ failure: Failure) -> Bool { callHandler(failure, of: nil) }

    /// Calls the handler of `rl.on_error` with the error value or text, and a table of details. Returns false if there
    /// is none.
    private func callHandler(_ failure: Failure, of source: Stack?) -> Bool {
        guard let function = existingPart(ErrorHandler.self)?.function, function != 0, source?.reserve(1) ?? true,
            let handler = takeFiber()
        else {
            return false
        }
        handler.stack.pushAnchored(function)
        if let source {
            source.pushCopy(of: -1)
            source.move(1, to: handler.stack)
        } else {
            push(text: failure.message, onto: handler.stack)
        }
        var info = ValueProgram()
        info.table { info in
            info.field("traceback") { $0.append(failure.traceback) }
            info.field("where") { $0.append(failure.place) }
        }
        guard handler.stack.push(info) else {
            recycle(handler)
            return false
        }
        handler.owner = ErrorHandlerRun(self, failure)
        resume(handler, arguments: 2)
        return true
    }
}
