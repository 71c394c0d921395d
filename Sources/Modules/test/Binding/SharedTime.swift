public import Linux
internal import Lua
public import LuaRunLoops
public import RunLoops

/// The time of a test, which a program that the test has started shares: see `t.spawn`.
public enum SharedTime {
    /// The environment variable by which programs, and those that they start, find the test.
    public static let variable = "RLHOST_TEST_CLOCK"
    // Only the main thread uses this variable, so it needs no lock, which every program would make at its start.
    nonisolated(unsafe) private static var joined: SimulatedClock?

    /// Returns the main thread's loop in the test's time, or nil if the variable is not set.
    ///
    /// - Throws: if the test no longer exists.
    public static func makeLoop() throws(SystemError) -> RunLoop? {
        guard let address = ProcessEnvironment[variable], !address.isEmpty else { return nil }
        let clock = try SimulatedClock(joining: address)
        clock.waitForWorkOutside()
        joined = clock
        let loop = RunLoop(poller: try clock.reserve().exactPoller)
        loop.becomeCurrent()
        return loop
    }

    /// Makes a state and its threads use that time. Returns an error message, or nil.
    public static func adopt(_ host: LuaHost) -> String? {
        guard let clock = joined else { return nil }
        host.haveThreadsLive(in: clock)
        host.threads.world.prepare = { host in host.tellSimulatedTime() }
        return host.tellSimulatedTime()
    }
}

extension Battery {
    /// Replaces `os.time` and similar functions in such a program.
    public static let testClock = Battery(part: "runloop.test.clock")
}

extension LuaHost {
    fileprivate func tellSimulatedTime() -> String? {
        load(.own("require 'runloop.test.clock'")) ?? callLoaded([])
    }

    /// Makes the threads that this state begins share a clock.
    func haveThreadsLive(in clock: SimulatedClock) {
        threads.world.expectThread = { () throws(SystemError) in
            let place = try clock.reserve()
            return {
                place.begin()
                return place.exactPoller
            }
        }
    }
}

extension SimulatedClock {
    /// Makes time stand still while a program works, or while a thread of the process owes an answer.
    func waitForWorkOutside() {
        setOutstanding {
            var reasons: Reasons = Program.someWork ? .programs : []
            if WorkPool.someAnswerIsAwaited { reasons.insert(.answers) }
            return reasons
        }
    }
}

extension SimulatedClock.Place {
    /// Returns a poller that waits at this place. The poller's timers fire exactly at their dates, to the nanosecond,
    /// as tests expect.
    var exactPoller: SimulatedPoller {
        let poller = SimulatedPoller(at: self)
        poller.fireDatesAreExact = true
        return poller
    }
}
