internal import CLinux
internal import Linux

/// A world in which sleeping takes no time: when nothing is ready, the clock jumps to the end of the wait.
///
/// Descriptors are real. While any is watched, the poller waits for it in real time, unless `waitsForDescriptors` is off.
/// Real time spent so passes here, too. A loop that sleeps without a deadline waits for another thread to wake it.
///
/// Several loops, each on its own thread, may share a clock: it jumps only when all of them sleep.
public final class SimulatedPoller: Poller {
    public let clock: SimulatedClock
    /// Off: only what is ready at the moment is seen of descriptors, and the clock jumps regardless.
    public var waitsForDescriptors: Bool
    /// Whether something outside this loop, such as a child process, may still have to happen before time may pass.
    public var somethingIsOutstanding: () -> Bool = { false }
    /// Called on the loop's thread, in the middle of its wait, when nothing can ever end that wait: no timer, no descriptor,
    /// no other loop is left, or the clock is held. Afterwards the wait goes on.
    public var stuckHandler: (() -> Void)?
    /// Called likewise when everything in all loops of the world has come to rest, once after each `settle`.
    public var settledHandler: (() -> Void)?
    private let place: SimulatedClock.Place

    public convenience init(start: RunLoop.Instant = .init(nanoseconds: 0), waitsForDescriptors: Bool = false) {
        self.init(clock: SimulatedClock(start: start), waitsForDescriptors: waitsForDescriptors)
    }

    /// The poller of one of the loops that share a clock. Traps when the process has no descriptors left; `reserve` says so.
    public convenience init(clock: SimulatedClock, waitsForDescriptors: Bool = true) {
        do throws(SystemError) {
            try self.init(at: clock.reserve(), waitsForDescriptors: waitsForDescriptors)
        } catch {
            fatalError("a simulated loop needs a descriptor, and this process gets none: \(error)")
        }
    }

    /// The same, of a loop that the clock has waited for since its place was reserved. Only one poller may have a place.
    public init(at place: SimulatedClock.Place, waitsForDescriptors: Bool = true) {
        clock = place.clock
        self.waitsForDescriptors = waitsForDescriptors
        self.place = place
    }

    /// Off, so that what a real loop makes of tolerances can be simulated.
    public var fireDatesAreExact = false
    public override var ignoresTolerance: Bool { fireDatesAreExact }

    public override func now() -> Int64 { clock.now.nanoseconds }

    public override var wallClock: Double { clock.wallClock }

    override func watchWallClock(_ changed: @escaping @Sendable () -> Void) -> Descriptor? {
        clock.whenWallClockIsSet(changed)
        return nil
    }

    /// Moves the clock, as if the loop's thread had been busy so long.
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

    /// Has `settledHandler` called as soon as nothing but the passing of time can happen in any loop of this world.
    public func settle() { clock.settle(place) }

    /// Calls `body`, which may block, outside of the loop: other loops go on meanwhile.
    public func whileAway<Result>(_ body: () -> Result) -> Result { clock.whileAway(place, body) }
}
