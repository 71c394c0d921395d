package import Lua

/// The way of an error from the place where it was raised through the waits that have passed it on. It holds copies of
/// stacks, which become text when somebody asks for it.
///
/// A trail never changes: each wait that passes an error on makes a longer one, since several tasks may await one.
final class ErrorTrail {
    let error: RaisedError
    /// The trail before the last wait; nil if no wait has passed the error on.
    let before: ErrorTrail?
    /// The stack of the code that waited; nil if only the host's own code did.
    private let stack: TakenStack?
    private let runner: Runner
    /// The number of waits, and how many more were left out after the first half of these.
    private let count: Int
    private let leftOut: Int
    /// The number of the fiber in which the error is, or was last.
    let carrier: Int

    private static let mostWaits = 10

    private init(
        _ error: RaisedError, _ before: ErrorTrail?, _ stack: TakenStack?, _ runner: Runner, leftOut: Int,
        _ carrier: Int
    ) {
        self.error = error
        self.before = before
        self.stack = stack
        self.runner = runner
        self.leftOut = leftOut
        self.carrier = carrier
        count = (before?.count ?? 0) + (stack == nil ? 0 : 1)
    }

    /// Makes the trail of an error that no wait has passed on.
    convenience init(_ error: RaisedError, in carrier: Int) {
        self.init(error, nil, nil, Runner(), leftOut: 0, carrier)
    }

    /// Returns the trail of the same error after a further wait.
    func passed(_ stack: TakenStack?, _ runner: Runner, to carrier: Int) -> ErrorTrail {
        let last = ErrorTrail(error, self, stack, runner, leftOut: leftOut, carrier)
        guard last.count > Self.mostWaits else { return last }
        var waits = last.waits
        waits.remove(at: Self.mostWaits / 2)
        return waits.reduce(ErrorTrail(error, in: carrier)) {
            ErrorTrail(error, $0, $1.stack, $1.runner, leftOut: leftOut + 1, carrier)
        }
    }

    /// Returns the same trail for the error that has replaced this one when a variable was closed.
    func replaced(by value: HeldValue) -> ErrorTrail {
        waits.reduce(ErrorTrail(error.replaced(by: value), in: carrier)) {
            ErrorTrail($0.error, $0, $1.stack, $1.runner, leftOut: leftOut, carrier)
        }
    }

    private var waits: [ErrorTrail] {
        var waits: [ErrorTrail] = []
        var next: ErrorTrail? = self
        while let trail = next {
            if trail.stack != nil { waits.append(trail) }
            next = trail.before
        }
        return waits.reversed()
    }

    /// Returns the error as text, for a task or callback in which nobody has handled it.
    func failure(_ host: LuaHost) -> Failure {
        let waits = waits
        var failure = error.failure(host, hasFrames: !waits.isEmpty)
        for (index, wait) in waits.enumerated() {
            guard let stack = wait.stack, let place = stack.place else { continue }
            let skipped = index == Self.mostWaits / 2 ? leftOut : 0
            failure.pass(at: place, stack.frames(host), wait.runner.subject(host), skipped: skipped)
        }
        return failure
    }

    /// The task or callback to which a stack belongs.
    struct Runner {
        private var origin: Fiber.Origin?
        private var name = ""
        /// The subject, if it could not be made later: names and objects are gone then.
        private var known: Known?
        private final class Known {
            let subject: Failure.Subject?
            init(_ subject: Failure.Subject?) { self.subject = subject }
        }

        init() {}

        init(_ fiber: Fiber?, of task: LuaTask?, _ host: LuaHost, isServed: Bool) {
            guard let fiber else { return }
            name = task?.name ?? ""
            if isServed || fiber.subject != 0 { known = Known(host.subject(of: fiber)) } else { origin = fiber.origin }
        }

        func subject(_ host: LuaHost) -> Failure.Subject? {
            if let known { return known.subject }
            guard let origin, let kind = origin.kindName else { return nil }
            return host.subject(kind: kind, name: name, site: origin.site)
        }
    }
}

/// An error as it was raised.
final class RaisedError {
    let value: HeldValue
    /// The error that was raised first, if another one was raised when a variable was closed because of it.
    private let first: HeldValue?
    private let place: Place
    let cause: Failure.Cause

    enum Place {
        case here(TakenStack?, ErrorTrail.Runner)
        /// In another thread.
        case elsewhere(Failure)
    }

    init(_ value: HeldValue, first: HeldValue? = nil, _ place: Place, _ cause: Failure.Cause) {
        self.value = value
        self.first = first
        self.place = place
        self.cause = cause
    }

    func replaced(by value: HeldValue) -> RaisedError { RaisedError(value, first: first ?? self.value, place, cause) }

    /// - Parameter hasFrames: whether it has a traceback although its value describes itself.
    fileprivate func failure(_ host: LuaHost, hasFrames: Bool) -> Failure {
        var (message, isDescribed) = host.text(of: value)
        if let first { message += ", in closing a variable after: \(host.text(of: first).message)" }
        switch place {
        case .here(let stack, let runner):
            let frames = isDescribed && !hasFrames ? nil : stack?.frames(host) ?? []
            return Failure(message, frames: frames, subject: runner.subject(host), cause: cause)
        case .elsewhere(var failure):
            failure.message = message
            failure.frames = failure.frames ?? []
            return failure
        }
    }
}

/// An error value that is kept alive.
final class HeldValue {
    let slot: UInt32
    // The state tells its end by `life`.
    private unowned(unsafe) let host: LuaHost
    private let life: Life

    /// Says whether a state is still open.
    final class Life { fileprivate(set) var isOver = false }

    /// Holds the value on top of a stack; returns nil if there is no memory.
    init?(_ host: LuaHost, _ life: Life, _ stack: Stack) {
        slot = stack.reserve(2) ? stack.anchor(-1) : 0
        self.host = host
        self.life = life
        if slot == 0 { return nil }
    }

    deinit { if !life.isOver { host.release(slot) } }

    /// Whether it is the value at an index of a stack, which has room for two more.
    func isSame(_ stack: Stack, _ index: Int32) -> Bool {
        let index = stack.absolute(index)
        host.push(stack, slot: slot)
        defer { stack.pop() }
        return stack.isSame(-1, index)
    }
}

/// The trails of a state's last errors.
final class ErrorTrails: HostPart {
    /// A ring, and the carriers of its trails.
    private var trails = [ErrorTrail?](repeating: nil, count: most)
    private var carriers = [Int](repeating: -1, count: most)
    private var next = 0
    private static let most = 32
    private let life = HeldValue.Life()

    func hold(_ stack: Stack) -> HeldValue? { HeldValue(host, life, stack) }

    private func keep(_ trail: ErrorTrail) {
        trails[next] = trail
        carriers[next] = trail.carrier
        next = (next + 1) % Self.most
    }

    // Its host ends, and with it the state.
    deinit { life.isOver = true }

    override func willClose() { reset() }

    override func reset() {
        for i in 0..<Self.most { (trails[i], carriers[i]) = (nil, -1) }
    }

    /// Returns the latest trail of the error at an index of a stack that is in this fiber, or anywhere for nil.
    func trail(of stack: Stack, _ index: Int32, in carrier: Int?) -> ErrorTrail? {
        for age in 1...Self.most {
            let place = (next - age + Self.most) % Self.most
            if carriers[place] < 0 || carrier != nil && carriers[place] != carrier { continue }
            guard let trail = trails[place], stack.reserve(3), trail.error.value.isSame(stack, index) else { continue }
            return trail
        }
        return nil
    }

    /// Returns the trail of the error on top of the stack of a fiber that has just failed; nil if there is no memory.
    func failed(_ fiber: Fiber, of task: LuaTask) -> ErrorTrail? {
        if let trail = trail(of: fiber.stack, -1, in: fiber.number) { return trail }
        return raised(on: fiber.stack, in: fiber, of: task, host.cause(of: fiber.stack))
    }

    /// Notes the error on top of a stack as one that is raised there, for someone who will wait for it.
    func raised(on stack: Stack) {
        let fiber = host.current
        if let trail = raised(on: stack, in: fiber, of: fiber.flatMap(LuaTask.running), .raised) { keep(trail) }
    }

    private func raised(
        on stack: Stack, in fiber: Fiber?, of task: LuaTask?, _ cause: Failure.Cause
    ) -> ErrorTrail? {
        let copy = TakenStack(stack)
        guard let value = hold(stack) else { return nil }
        let runner = ErrorTrail.Runner(fiber, of: task, host, isServed: copy?.isServed ?? false)
        return ErrorTrail(RaisedError(value, .here(copy, runner), cause), in: fiber?.number ?? 0)
    }

    /// Notes that a wait is about to raise an error where a fiber waits.
    func pass(_ trail: ErrorTrail, to fiber: Fiber?, _ stack: Stack) {
        guard trail.error.cause != .cancelled else { return }
        let copy = TakenStack(stack).flatMap { $0.hasPlace ? $0 : nil }
        let task = fiber.flatMap(LuaTask.running)
        let runner = ErrorTrail.Runner(fiber, of: task, host, isServed: copy?.isServed ?? false)
        keep(trail.passed(copy, runner, to: fiber?.number ?? 0))
    }

    /// Notes that an error of another thread, on top of a stack, is about to reach a fiber that waits there.
    func arrived(_ failure: Failure, on stack: Stack, to fiber: Fiber?) {
        guard failure.cause != .cancelled, let value = hold(stack) else { return }
        pass(ErrorTrail(RaisedError(value, .elsewhere(failure), failure.cause), in: 0), to: fiber, stack)
    }
}

extension LuaHost {
    var trails: ErrorTrails { part(ErrorTrails.self) }

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
    fileprivate func text(of value: HeldValue) -> (message: String, isDescribed: Bool) {
        guard stack.reserve(4) else { return ("not enough memory", true) }
        push(stack, slot: value.slot)
        defer { stack.pop() }
        let explanation = explanation(of: stack)
        return (explanation.message, explanation.frames == nil)
    }
}
