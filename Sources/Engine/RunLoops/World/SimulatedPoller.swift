internal import CLinux
internal import Linux

/// The poller for simulated time, in which sleeping takes no real time: when nothing is ready, the clock jumps to the
/// end of the wait.
///
/// Descriptors are real. While the loop watches a descriptor, the poller waits for it in real time, and the simulated
/// clock advances with real time. If `waitsForDescriptors` is false, the poller does not wait. A loop that sleeps
/// without a deadline waits for another thread to wake it.
///
/// Several loops, each on its own thread, may share a clock, which jumps only when all of them sleep.
public final class SimulatedPoller: Poller {
    /// The clock of the loop's world, which other loops may share.
    public let clock: SimulatedClock
    /// Whether to wait for descriptors in real time. If false, the loop sees only descriptors that are ready now, and
    /// the clock jumps regardless.
    public var waitsForDescriptors: Bool
    /// Returns whether something outside this loop, such as a child process, must still happen before time may pass.
    public var somethingIsOutstanding: () -> Bool = { false }
    /// Called on the loop's thread during its wait when nothing can ever end that wait: there is no timer, no
    /// descriptor and no other loop, or the clock is held. The wait then continues.
    public var stuckHandler: (() -> Void)?
    /// Called on the loop's thread, during its wait, when all loops of the world rest; once after each `settle`.
    public var settledHandler: (() -> Void)?
    private let place: SimulatedClock.Place

    /// Makes the poller of a world with one loop, whose clock starts at `start`. Traps if the process has no
    /// descriptors left.
    public convenience init(start: RunLoop.Instant = .init(nanoseconds: 0), waitsForDescriptors: Bool = false) {
        self.init(clock: SimulatedClock(start: start), waitsForDescriptors: waitsForDescriptors)
    }

    /// Makes the poller of one of the loops that share a clock. Traps if the process has no descriptors left;
    /// `SimulatedClock.reserve` throws instead.
    public convenience init(clock: SimulatedClock, waitsForDescriptors: Bool = true) {
        do throws(SystemError) {
            try self.init(at: clock.reserve(), waitsForDescriptors: waitsForDescriptors)
        } catch {
            fatalError("a simulated loop needs a descriptor, and this process gets none: \(error)")
        }
    }

    /// Makes the poller of a loop whose place was reserved earlier. Since the reservation, the clock has waited for
    /// that loop. Each place may have one poller only.
    public init(at place: SimulatedClock.Place, waitsForDescriptors: Bool = true) {
        clock = place.clock
        self.waitsForDescriptors = waitsForDescriptors
        self.place = place
    }

    /// Whether timers ignore their tolerances. Initially false, so that a simulation shows what tolerances do to a real
    /// loop.
    public var fireDatesAreExact = false
    public override var ignoresTolerance: Bool { fireDatesAreExact }

    public override func now() -> Int64 { clock.now.nanoseconds }

    public override var wallClock: Double { clock.wallClock }

    override func watchWallClock(_ changed: @escaping @Sendable () -> Void) -> Descriptor? {
        clock.whenWallClockIsSet(changed)
        return nil
    }

    /// Moves the clock, as if the loop's thread had been busy for this long.
    public func advance(by duration: Duration) { clock.advance(by: duration) }

    public override func wait(
        _ epoll: Int32, _ events: UnsafeMutableRawPointer, capacity: Int, timeout: Int64, watching: Int
    ) -> Int {
        let events = events.assumingMemoryBound(to: epoll_event.self)
        if clock.followsRealTime {
            return max(0, Int(linux_epoll_wait(epoll, events, CInt(capacity), timeout)))
        }
        let ready = Int(linux_epoll_wait(epoll, events, CInt(capacity), 0))
        guard ready <= 0, timeout != 0 else { return max(0, ready) }
        let deadline = timeout < 0 ? Int64.max : now().addingSaturating(timeout)
        let told: (Bool) -> Void = { [unowned self] isSettled in (isSettled ? settledHandler : stuckHandler)?() }
        clock.sleep(
            place, in: epoll, until: deadline, watched: waitsForDescriptors ? watched : [],
            watchesDescriptors: waitsForDescriptors && watching > 0, isOutstanding: somethingIsOutstanding,
            told: stuckHandler == nil && settledHandler == nil ? nil : told)
        return max(0, Int(linux_epoll_wait(epoll, events, CInt(capacity), 0)))
    }

    public override var wantsToKnowDescriptors: Bool { waitsForDescriptors }

    /// Calls `settledHandler` as soon as only the passing of time can make anything happen in any loop of this world.
    public func settle() { clock.settle(place) }

    /// Calls `body`, which may block. The other loops do not wait for this loop meanwhile.
    public func whileAway<Result>(_ body: () -> Result) -> Result { clock.whileAway(place, body) }
}
