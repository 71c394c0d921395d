package import Lua

/// The path of an error: the place where it was raised, and the waits that have passed it on to other tasks. The trail
/// has copies of stacks, which are converted to text on demand.
///
/// A trail never changes, since several tasks may await the failed task. Each wait that passes the error on makes a
/// new, longer trail.
final class ErrorTrail {
    let error: RaisedError
    /// The trail before the last wait.
    private let before: ErrorTrail?
    /// The stack of the code that waited; empty if only the host's own code did.
    private let stack: TakenStack
    private let runner: ErrorRunner
    /// The number of waits that the trail keeps. `leftOut` counts the waits that were dropped after the first half of
    /// these.
    private let count: Int
    private let leftOut: Int
    /// The number of the fiber that the error has reached last.
    let carrier: Int

    private static let mostWaits = 10

    private init(
        _ error: RaisedError, _ before: ErrorTrail?, _ stack: TakenStack, _ runner: ErrorRunner, leftOut: Int,
        _ carrier: Int
    ) {
        self.error = error
        self.before = before
        self.stack = stack
        self.runner = runner
        self.leftOut = leftOut
        self.carrier = carrier
        count = (before?.count ?? 0) + (stack.hasPlace ? 1 : 0)
    }

    deinit { stack.drop() }

    /// Makes the trail of an error after its first wait.
    convenience init(_ error: RaisedError, _ stack: TakenStack, _ runner: ErrorRunner, to carrier: Int) {
        self.init(error, nil, stack, runner, leftOut: 0, carrier)
    }

    /// Returns the trail of the same error after a further wait.
    func passed(_ stack: TakenStack, _ runner: ErrorRunner, to carrier: Int) -> ErrorTrail {
        let last = ErrorTrail(error, self, stack, runner, leftOut: leftOut, carrier)
        guard last.count > Self.mostWaits else { return last }
        var waits = last.waits
        waits.remove(at: Self.mostWaits / 2)
        return Self.chain(waits, error, leftOut: leftOut + 1) ?? last
    }

    /// Returns the same trail for the error that has replaced this one when a variable was closed.
    func replaced(by error: RaisedError) -> ErrorTrail { Self.chain(waits, error, leftOut: leftOut) ?? self }

    private static func chain(_ waits: [ErrorTrail], _ error: RaisedError, leftOut: Int) -> ErrorTrail? {
        waits.reduce(nil) { ErrorTrail(error, $0, $1.stack.keep(), $1.runner, leftOut: leftOut, $1.carrier) }
    }

    private var waits: [ErrorTrail] {
        var waits: [ErrorTrail] = []
        var next: ErrorTrail? = self
        while let trail = next {
            if trail.stack.hasPlace { waits.append(trail) }
            next = trail.before
        }
        return waits.reversed()
    }

    /// Returns the error as text, for a task or callback in which nobody has handled it.
    func failure(_ host: LuaHost) -> Failure {
        let waits = waits
        var failure = error.failure(hasFrames: !waits.isEmpty)
        for (index, wait) in waits.enumerated() {
            let (place, skipped) = (wait.stack.place ?? "?", index == Self.mostWaits / 2 ? leftOut : 0)
            failure.pass(at: place, wait.stack.frames(host), wait.runner.subject(host), skipped: skipped)
        }
        return failure
    }
}

/// The task or callback to which a stack belongs.
struct ErrorRunner {
    private var origin: Fiber.Origin?
    /// The subject, if it must be stored now, because names and objects may not exist later.
    private var known: Known?

    private final class Known {
        let subject: Failure.Subject?
        init(_ subject: Failure.Subject?) { self.subject = subject }
    }

    static var none: ErrorRunner { ErrorRunner() }
    private init() {}

    init(_ fiber: Fiber?, of task: LuaTask?, _ host: LuaHost, isServed: Bool) {
        guard let fiber else { return }
        if let task, !task.name.isEmpty {
            known = Known(host.subject(kind: fiber.subjectKind ?? "task", name: task.name, site: fiber.subjectSite))
        } else if isServed || fiber.subject != 0 {
            known = Known(host.subject(of: fiber))
        } else {
            origin = fiber.origin
        }
    }

    func subject(_ host: LuaHost) -> Failure.Subject? {
        if let known { return known.subject }
        guard let origin, let kind = origin.kindName else { return nil }
        return host.subject(kind: kind, name: "", site: origin.site)
    }
}

/// An error as it was raised.
final class RaisedError {
    /// The error value.
    let slot: UInt32
    /// The earlier error, if this error was raised while a variable was closed because of it.
    private let first: RaisedError?
    private let stack: TakenStack
    private let runner: ErrorRunner
    /// The error of another thread.
    private let foreign: Foreign?
    let cause: Failure.Cause
    // Valid while `life` says that the state exists.
    private unowned(unsafe) let host: LuaHost
    private let life: Life

    /// Says whether a state still exists.
    final class Life { fileprivate(set) var isOver = false }

    fileprivate final class Foreign {
        let failure: Failure
        init(_ failure: Failure) { self.failure = failure }
    }

    /// Anchors the error value on top of a stack. Returns nil if there is no memory.
    fileprivate init?(
        _ host: LuaHost, _ life: Life, _ value: Stack, after first: RaisedError? = nil, _ stack: TakenStack,
        _ runner: ErrorRunner, from foreign: Foreign? = nil, _ cause: Failure.Cause
    ) {
        slot = value.reserve(2) ? value.anchor(-1) : 0
        self.first = first
        self.stack = stack
        self.runner = runner
        self.foreign = foreign
        self.cause = cause
        self.host = host
        self.life = life
        if slot == 0 { return nil }
    }

    deinit {
        stack.drop()
        if !life.isOver { host.release(slot) }
    }

    /// Whether the error's value is the value at an index of a stack. The stack must have room for two more values.
    func isSame(_ stack: Stack, _ index: Int32) -> Bool {
        let index = stack.absolute(index)
        host.push(stack, slot: slot)
        defer { stack.pop() }
        return stack.isSame(-1, index)
    }

    /// Returns the error that is now on top of the stack of a failed fiber whose variables have been closed.
    func afterClosing(_ value: Stack) -> RaisedError {
        if isSame(value, -1) { return self }
        return RaisedError(host, life, value, after: first ?? self, stack.keep(), runner, from: foreign, cause) ?? self
    }

    /// - Parameter hasFrames: whether the failure has a traceback although the error value describes itself.
    func failure(hasFrames: Bool = false) -> Failure {
        var (message, isDescribed) = host.text(ofError: slot)
        if let first { message += ", in closing a variable after: \(host.text(ofError: first.slot).message)" }
        guard var failure = foreign?.failure else {
            let frames = isDescribed && !hasFrames ? nil : stack.frames(host)
            return Failure(message, frames: frames, subject: runner.subject(host), cause: cause)
        }
        failure.message = message
        failure.frames = failure.frames ?? []
        return failure
    }
}

/// The trails of a state's last errors.
final class ErrorTrails: HostPart {
    /// A ring of trails; `carriers` has the fiber or future of each.
    private var trails = [ErrorTrail?](repeating: nil, count: most)
    private var carriers = [Int](repeating: -1, count: most)
    private var next = 0
    private static let most = 32
    private let life = RaisedError.Life()

    private func keep(_ trail: ErrorTrail) {
        trails[next] = trail
        carriers[next] = trail.carrier
        next = (next + 1) % Self.most
    }

    // The host and its Lua state are being destroyed.
    deinit { life.isOver = true }

    override func willClose() { reset() }

    override func reset() {
        for i in 0..<Self.most { (trails[i], carriers[i]) = (nil, -1) }
    }

    /// Returns the latest trail of the error at an index of a stack. If `carrier` is not nil, the trail must belong to
    /// this carrier.
    func trail(of stack: Stack, _ index: Int32, in carrier: Int?) -> ErrorTrail? {
        for age in 1...Self.most {
            let place = (next - age + Self.most) % Self.most
            if carriers[place] < 0 || carrier != nil && carriers[place] != carrier { continue }
            guard let trail = trails[place], stack.reserve(3), trail.error.isSame(stack, index) else { continue }
            return trail
        }
        return nil
    }

    /// Returns the trail of the error on top of the stack of a fiber that has just failed; nil if the error was raised
    /// in that fiber.
    func carried(by fiber: Fiber) -> ErrorTrail? {
        fiber.carriesError ? trail(of: fiber.stack, -1, in: fiber.number) : nil
    }

    /// Returns an object for the error on top of a stack, which was raised there; nil if there is no memory.
    func raised(on stack: Stack, in fiber: Fiber?, of task: LuaTask?, _ cause: Failure.Cause) -> RaisedError? {
        let copy = TakenStack(stack)
        let runner = ErrorRunner(fiber, of: task, host, isServed: copy.isServed)
        return RaisedError(host, life, stack, copy, runner, cause)
    }

    /// Notes that a wait is about to raise an error where a fiber waits.
    ///
    /// - Parameter trail: the earlier waits of the error.
    func pass(_ error: RaisedError, _ trail: ErrorTrail?, to fiber: Fiber?, _ stack: Stack) {
        guard error.cause != .cancelled else { return }
        let copy = TakenStack(stack)
        let runner = ErrorRunner(fiber, of: fiber.flatMap(LuaTask.running), host, isServed: copy.isServed)
        let carrier = fiber?.number ?? 0
        fiber?.carriesError = true
        keep(trail?.passed(copy, runner, to: carrier) ?? ErrorTrail(error, copy, runner, to: carrier))
    }

    /// Notes that an error of another thread, on top of a stack, is about to reach a fiber that waits there.
    func arrived(_ failure: Failure, on stack: Stack, to fiber: Fiber?) {
        let foreign = RaisedError.Foreign(failure)
        guard let error = RaisedError(host, life, stack, .none, .none, from: foreign, failure.cause) else { return }
        pass(error, nil, to: fiber, stack)
    }

    /// Notes that a future fails there, with the error on top of a stack.
    func failed(_ future: Future.Pointer, _ stack: Stack) {
        // Perhaps no task ever waits for the future, so the error value may stay here for long. It must not keep a port
        // or a file from being collected.
        if stack.type(-1) == .userdata { return }
        let (fiber, cause) = (host.current, host.cause(of: stack))
        guard let error = raised(on: stack, in: fiber, of: fiber.flatMap(LuaTask.running), cause) else { return }
        keep(ErrorTrail(error, .none, .none, to: Self.carrier(future)))
    }

    /// Notes that a future's error, on top of a stack, is about to be raised where a fiber waits.
    func pass(errorOf future: Future.Pointer, to fiber: Fiber?, _ stack: Stack) {
        guard let trail = trail(of: stack, -1, in: Self.carrier(future)) else { return }
        pass(trail.error, trail, to: fiber, stack)
    }

    /// The key of a future: its address, which differs from the keys of fibers, since those are small numbers.
    private static func carrier(_ future: Future.Pointer) -> Int { Int(bitPattern: future) }
}

extension LuaHost {
    /// Why the error value on top of a stack was raised.
    func cause(of stack: Stack) -> Failure.Cause {
        if isCancelled(stack) { return .cancelled }
        return isInterruption(stack) ? .interrupted : .raised
    }

    /// Returns the full text of an error: message, stack, and the waits that have passed it on.
    func text(of trail: ErrorTrail) -> String {
        let failure = trail.failure(self)
        return ([failure.traceback] + (failure.route.isEmpty ? failure.places : [])).joined(separator: "\n")
    }

    /// Returns the lines of that text after the message, for the test runner; nil if no wait of the running task has
    /// passed on the error at an index of a stack.
    package func lines(ofPassed stack: Stack, _ index: Int32) -> [String]? {
        existingPart(ErrorTrails.self)?.trail(of: stack, index, in: current?.number ?? 0)?.failure(self).lines
    }

    /// Returns the message of an error value, and whether it describes itself.
    fileprivate func text(ofError slot: UInt32) -> (message: String, isDescribed: Bool) {
        guard stack.reserve(4) else { return ("not enough memory", true) }
        push(stack, slot: slot)
        defer { stack.pop() }
        let explanation = explanation(of: stack)
        return (explanation.message, explanation.frames == nil)
    }
}
