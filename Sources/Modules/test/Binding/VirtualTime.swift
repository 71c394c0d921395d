internal import Linux
internal import Lua
public import LuaRunLoops
public import RunLoops

/// The world of a test runner: the main thread's loop, in virtual time, and its events for the runner.
public final class TestWorld {
    public let clock: SimulatedClock
    public let loop: RunLoop
    let poller: SimulatedPoller
    /// Unhandled errors in their order, each with the anchored error value, or 0.
    var errors: [(failure: Failure, value: UInt32)] = []
    /// The runner's Lua part has recorded an error.
    var hasFailed = false
    /// The loop sleeps, and nothing can wake it.
    var isStuck = false
    /// The test has asked to end.
    var isStopped = false
    /// The task that waits for `unpark`.
    var parked: Fiber?
    /// The waits of `settle`, which end when all loops of the test are at rest.
    var settlers: [(number: UInt64, modes: [RunLoop.Mode])] = []
    /// The objects that groups of tests own, by the group's number. `keptFrom`: the objects that existed when a group
    /// began to make more.
    var keeps: [Int: Kept] = [:]
    var keptFrom: [Kept] = []
    var lastKept = 0
    /// Determines everything random in a test.
    private let chance = Lock(Chance())
    private var host: LuaHost?

    private struct Chance: Sendable {
        var seed: UInt64 = 0
        var threads = 0
    }

    /// 2000-01-01 00:00:00 UTC: the time at which tests begin by default.
    static let epoch = 946_684_800.0

    /// Makes its loop the loop of the calling thread. The thread must not have a loop yet.
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
            // If the test itself waits in rl.run, the call must not return as if the run had ended well.
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

    /// Adds a new state to this world.
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
            host.seeded = SeededNumbers(seed: seed, number: number)
            let text = "math.randomseed(\(Int64(bitPattern: seed)), \(number)) require 'runloop.test.clock'"
            return host.load(.own(text)) ?? host.callLoaded([])
        }
    }

    /// Resets the clock and the random numbers.
    ///
    /// - Parameter wallClock: seconds since 1970; nil for the real time.
    func reset(seed: UInt64, wallClock: Double?) {
        settlers = []
        chance.withLock { $0 = Chance(seed: seed) }
        host?.seeded = SeededNumbers(seed: seed, number: 0)
        guard keeps.isEmpty else { return clock.refresh(chance: seed) }
        // Times are whole hundredths of a second, so that values after a short real wait are readable.
        clock.reset(wallClock: wallClock ?? RunLoop.wallClock, chance: seed, grain: 10_000_000)
    }

    fileprivate func forgetErrors(_ host: LuaHost) {
        for error in errors { host.release(error.value) }
        errors = []
    }

    /// Limits the time for which the loop may run from now on. The limit counts processor time and real waiting, but
    /// not the time for which other processes occupy the processors.
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

    /// The state that the signal handler reads.
    private enum Alarm {
        // The handle is set once, before the signal handler is installed. The signal handler only reads the handle.
        nonisolated(unsafe) static var handle: RunLoop.Handle?
        nonisolated(unsafe) static var seconds = 0.0
    }
}

/// The runner's part of the state of a test file: the world that contains it.
final class TestPart: HostPart {
    weak var world: TestWorld?

    /// Drops the errors that came after the outcome of the test: ending the test has caused them.
    func forgetErrors() { world?.forgetErrors(host) }

    override func reset() {
        forgetErrors()
        ProcessStateBinding.forgetAssertions()
    }
}

extension Call {
    /// nil in the threads of a test.
    var testWorld: TestWorld? { luaHost.part(TestPart.self).world }
}

extension TestWorld {
    /// Calls a function with the world of the test; does nothing in the threads of a test.
    static func act(_ thread: OpaquePointer?, _ body: (TestWorld, Call) -> Void) -> Int32 {
        Call.act(thread) { call in if let world = call.testWorld { body(world, call) } }
    }
}
