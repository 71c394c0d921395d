internal import Linux
internal import Lua
public import RunLoops

/// The world of a test runner: the main thread's loop, in virtual time, and what the runner learns about it.
public final class TestWorld {
    public let clock = SimulatedClock()
    public let loop: RunLoop
    /// Errors that nobody has handled, in the order in which they came; each with the anchored error value, or 0.
    var errors: [(failure: Failure, value: UInt32)] = []
    /// The loop sleeps, and nothing can wake it.
    var isStuck = false
    /// The test has asked for its end.
    var isStopped = false
    /// The task that waits for `unpark`.
    var parked: Fiber?

    /// Makes its loop that of the calling thread, which must have none yet.
    public init() {
        let poller = SimulatedPoller(clock: clock)
        poller.fireDatesAreExact = true
        loop = RunLoop(poller: poller)
        loop.becomeCurrent()
        poller.somethingIsOutstanding = { Program.hasChildren }
        poller.stuckHandler = { [unowned self] in
            isStuck = true
            loop.stopAll()
            loop.handle.wakeUp()
        }
        loop.attentionHandler = { loop in if LuaHost.timeIsOver { loop.stopAll() } }
        Alarm.handle = loop.handle
    }

    /// Makes a new state one of this world.
    public func adopt(_ host: LuaHost) {
        host.part(TestPart.self).world = self
        host.onUncaught = { [unowned self] host, failure in
            errors.append((failure, host.uncaughtValue?.anchor(-1) ?? 0))
            loop.stopAll()
        }
        let clock = clock
        host.threads.world.expectThread = { () throws(SystemError) in
            let place = try clock.reserve()
            return {
                let poller = SimulatedPoller(at: place)
                poller.fireDatesAreExact = true
                return poller
            }
        }
        host.threads.world.prepare = { host in
            host.load(.text("require 'runloop.test.clock'", name: "=[rlhost]")) ?? host.callLoaded([])
        }
    }

    fileprivate func forgetErrors(_ host: LuaHost) {
        for error in errors { host.release(error.value) }
        errors = []
    }

    /// For so many real seconds from now the loop may run.
    func startWatch(_ host: LuaHost, seconds: Double) {
        isStuck = false
        isStopped = false
        host.startWatch(
            seconds: seconds, notify: { Alarm.handle?.raiseAttention() },
            isWaiting: { Alarm.handle?.isWaiting ?? false ? 1 : 0 })
    }

    func stopWatch(_ host: LuaHost) { host.stopWatch() }

    /// For the signal handler.
    private enum Alarm {
        // Set once, before the handler is; only read by it.
        nonisolated(unsafe) static var handle: RunLoop.Handle?
    }
}

/// What the test runner keeps for a test file's state: the world that it is in.
final class TestPart: HostPart {
    weak var world: TestWorld?

    /// Errors that came since the test's outcome is known came for its being ended.
    func forgetErrors() { world?.forgetErrors(host) }

    override func reset() {
        forgetErrors()
        world?.clock.reset()
    }
}
