internal import Linux
internal import Lua
public import LuaRunLoops
public import RunLoops

/// The world of a test runner: the main thread's loop, in virtual time, and what the runner learns about it.
public final class TestWorld {
    public let clock: SimulatedClock
    public let loop: RunLoop
    let poller: SimulatedPoller
    /// Errors that nobody has handled, in the order in which they came; each with the anchored error value, or 0.
    var errors: [(failure: Failure, value: UInt32)] = []
    /// The runner's own part knows of an error.
    var hasFailed = false
    /// The loop sleeps, and nothing can wake it.
    var isStuck = false
    /// The test has asked for its end.
    var isStopped = false
    /// The task that waits for `unpark`.
    var parked: Fiber?
    /// The waits of those who want to know when everything has come to rest.
    var settlers: [(number: UInt64, modes: [RunLoop.Mode])] = []
    /// What groups of tests own, by number; what there was when they began to make it.
    var keeps: [Int: Kept] = [:]
    var keptFrom: [Kept] = []
    var lastKept = 0
    /// Decides about all that is left to chance in a test.
    private let chance = Lock(Chance())
    private var host: LuaHost?

    private struct Chance: Sendable {
        var seed: UInt64 = 0
        var threads = 0
    }

    /// 2000-01-01 00:00:00 UTC, when tests begin that do not say otherwise.
    static let epoch = 946_684_800.0

    /// Makes its loop that of the calling thread, which must have none yet.
    public init() {
        clock = SimulatedClock(wallClock: Self.epoch, knowsOwnDescriptors: true)
        poller = SimulatedPoller(clock: clock)
        poller.fireDatesAreExact = true
        loop = RunLoop(poller: poller)
        loop.becomeCurrent()
        clock.waitForWorkOutside()
        WorkPool.awaitTurn = { [clock] in clock.awaitRest() }
        poller.stuckHandler = { [unowned self] in
            isStuck = true
            // One that is inside the test's own call of rl.run must not go on as if that had ended well.
            host?.interruptStuck()
            loop.stopAll()
            loop.handle.wakeUp()
        }
        poller.settledHandler = { [unowned self] in
            let ended = settlers
            settlers = []
            for wait in ended { LuaHost.end(wait.number, of: loop.handle, in: wait.modes, with: .sent(true)) }
        }
        loop.attentionHandler = { loop in if LuaHost.timeIsOver { loop.stopAll() } }
        Alarm.handle = loop.handle
    }

    /// Makes a new state one of this world.
    public func adopt(_ host: LuaHost) {
        self.host = host
        keeps = [:]
        keptFrom = []
        host.part(TestPart.self).world = self
        host.onUncaught = { [unowned self] host, failure in
            errors.append((failure, host.uncaughtValue?.anchor(-1) ?? 0))
            loop.stopAll()
        }
        let chance = chance
        host.haveThreadsLive(in: clock)
        host.threads.world.prepare = { host in
            let (seed, number) = chance.withLock { chance in
                chance.threads += 1
                return (chance.seed, chance.threads)
            }
            let text = "math.randomseed(\(Int64(bitPattern: seed)), \(number)) require 'runloop.test.clock'"
            return host.load(.text(text, name: "=[rlhost]")) ?? host.callLoaded([])
        }
    }

    /// The clock as new, and chance too.
    ///
    /// - Parameter wallClock: seconds since 1970; nil: what it really is.
    func reset(seed: UInt64, wallClock: Double?) {
        settlers = []
        chance.withLock { $0 = Chance(seed: seed) }
        guard keeps.isEmpty else { return clock.refresh(chance: seed) }
        // Whole hundredths: a value after a short real wait is a readable one.
        clock.reset(wallClock: wallClock ?? RunLoop.wallClock, chance: seed, grain: 10_000_000)
    }

    fileprivate func forgetErrors(_ host: LuaHost) {
        for error in errors { host.release(error.value) }
        errors = []
    }

    /// For so many seconds from now the loop may run: of processor time and real waiting, whatever else the machine does.
    func startWatch(_ host: LuaHost, seconds: Double) {
        WorkerProcess.beginCount()
        Alarm.seconds = seconds
        isStuck = false
        isStopped = false
        hasFailed = false
        host.startWatch(
            seconds: seconds, notify: { Alarm.handle?.raiseAttention() },
            isWaiting: { Alarm.handle?.isWaiting ?? false ? 1 : 0 },
            left: { Alarm.seconds - WorkerProcess.secondsTaken })
    }

    func stopWatch(_ host: LuaHost) { host.stopWatch() }

    /// For the signal handler.
    private enum Alarm {
        // Set once, before the handler is; only read by it.
        nonisolated(unsafe) static var handle: RunLoop.Handle?
        nonisolated(unsafe) static var seconds = 0.0
    }
}

/// What the test runner keeps for a test file's state: the world that it is in.
final class TestPart: HostPart {
    weak var world: TestWorld?

    /// Errors that came since the test's outcome is known came for its being ended.
    func forgetErrors() { world?.forgetErrors(host) }

    override func reset() {
        forgetErrors()
        ProcessStateBinding.forgetAssertions()
    }
}

extension Call {
    /// nil in a test's threads.
    var testWorld: TestWorld? { luaHost.part(TestPart.self).world }
}

extension TestWorld {
    /// For a function that does something with the test's world, and nothing in a test's threads.
    static func act(_ thread: OpaquePointer?, _ body: (TestWorld, Call) -> Void) -> Int32 {
        Call.act(thread) { call in if let world = call.testWorld { body(world, call) } }
    }
}
