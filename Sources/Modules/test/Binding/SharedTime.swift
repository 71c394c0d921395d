public import Linux
internal import Lua
public import LuaRunLoops
public import RunLoops

/// The time of a test, in a program that the test has started to live in it: see `t.spawn`.
public enum SharedTime {
    /// The variable by which programs, and those that they start, find the test.
    public static let variable = "RLHOST_TEST_CLOCK"
    // Of the main thread alone. Without a lock, which each program would make at its start.
    nonisolated(unsafe) private static var joined: SimulatedClock?

    /// The main thread's loop, in that time; nil: nobody has asked for that.
    ///
    /// - Throws: the test is not there any more.
    public static func makeLoop() throws(SystemError) -> RunLoop? {
        guard let address = ProcessEnvironment[variable], !address.isEmpty else { return nil }
        let clock = try SimulatedClock(joining: address)
        clock.waitForWorkOutside()
        joined = clock
        let loop = RunLoop(poller: try clock.reserve().exactPoller)
        loop.becomeCurrent()
        return loop
    }

    /// Has a state, and its threads, tell that time. Returns an error message.
    public static func adopt(_ host: LuaHost) -> String? {
        guard let clock = joined else { return nil }
        host.haveThreadsLive(in: clock)
        host.threads.world.prepare = { host in host.tellSimulatedTime() }
        return host.tellSimulatedTime()
    }
}

extension Battery {
    /// What `os.time` and its kin are in such a program.
    public static let testClock = Battery("runloop.test.clock", functions: Library([]))
}

extension LuaHost {
    fileprivate func tellSimulatedTime() -> String? {
        load(.text("require 'runloop.test.clock'", name: "=[rlhost]")) ?? callLoaded([])
    }

    /// Threads that this state begins share a clock.
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
    /// Time stands still while a program works, or a thread of the process owes an answer.
    func waitForWorkOutside() {
        setOutstanding {
            var reasons: Reasons = Program.someWork ? .programs : []
            if WorkPool.someAnswerIsAwaited { reasons.insert(.answers) }
            return reasons
        }
    }
}

extension SimulatedClock.Place {
    /// Waits there; timers fire at their dates to the nanosecond, as tests expect them.
    var exactPoller: SimulatedPoller {
        let poller = SimulatedPoller(at: self)
        poller.fireDatesAreExact = true
        return poller
    }
}
