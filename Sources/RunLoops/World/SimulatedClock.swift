internal import CLinux
public import Linux

/// The time of a simulated world. Any number of loops, each on its own thread, live in it through a `SimulatedPoller`.
///
/// While a loop works, time stands still. When all sleep, it jumps to the first deadline, unless something real may still
/// come before that: then real time passes here, too. All calls are safe on any thread.
public final class SimulatedClock: Sendable {
    /// One loop, as the clock sees it: as long as it exists and does not sleep, the clock does not jump.
    public final class Place: Sendable {
        let clock: SimulatedClock
        /// Becomes readable when the loop is to look at the clock again.
        let bell: Descriptor

        fileprivate init(_ clock: SimulatedClock) throws(SystemError) {
            bell = try .event()
            self.clock = clock
            clock.state.withLock { $0.places += 1 }
        }

        deinit { clock.leave() }
    }

    /// A loop that sleeps.
    private struct Sleeper: Sendable {
        let place: Place
        let epoll: Int32
        let deadline: Int64
        let watchesDescriptors: Bool
        /// Whether anything woke it, which it has not noticed yet.
        var isReady: Bool { linux_poll_now(epoll, Int16(POLLIN)) != 0 }
    }

    private struct State: Sendable {
        var time: Int64
        var wallClock: Double
        /// Since when, by the real clock, time passes by itself.
        var flowsSince: Int64?
        var followsRealTime = false
        var isHeld = false
        /// Up to here it may jump, whatever is outstanding.
        var mayJumpTo = Int64.min
        var places = 0
        var sleepers: [Sleeper] = []

        var now: Int64 { flowsSince.map { time.addingSaturating(linux_monotonic_now() - $0) } ?? time }

        mutating func stop() {
            time = now
            flowsSince = nil
        }
    }

    private enum Decision {
        /// Its deadline is there.
        case awake
        /// For so many real nanoseconds at most; negative: no limit.
        case sleep(Int64)
        case stuck
    }

    /// Where it ends, after 126 years: whoever sleeps longer never wakes, and sums of dates stay in range.
    private static let end: Int64 = 4_000_000_000_000_000_000

    private let state: Lock<State>

    /// - Parameter wallClock: seconds since 1970 at the start.
    public init(start: RunLoop.Instant = .init(nanoseconds: 0), wallClock: Double = RunLoop.wallClock) {
        state = Lock(State(time: start.nanoseconds, wallClock: wallClock - Double(start.nanoseconds) / 1e9))
    }

    public var now: RunLoop.Instant { .init(nanoseconds: state.withLock { $0.now }) }

    /// Seconds since 1970.
    public var wallClock: Double { state.withLock { $0.wallClock + Double($0.now) / 1e9 } }

    /// How many loops live in this world.
    public var loops: Int { state.withLock { $0.places } }

    /// Begins anew. Only while no other loop lives in this world.
    public func reset(to start: RunLoop.Instant = .init(nanoseconds: 0), wallClock: Double = RunLoop.wallClock) {
        state.withLock { state in
            let places = state.places
            state = State(time: start.nanoseconds, wallClock: wallClock - Double(start.nanoseconds) / 1e9)
            state.places = places
        }
    }

    /// Moves the clock, as if a thread had been busy so long.
    public func advance(by duration: Duration) {
        state.withLock { $0.time = $0.time.addingSaturating(max(0, duration.wholeNanoseconds)) }
    }

    /// Held: it does not jump by itself, only where `allowJump` lets it.
    public var isHeld: Bool {
        get { state.withLock { $0.isHeld } }
        set { state.withLock { $0.isHeld = newValue } }
    }

    /// Lets it jump to a date even though it is held, or something real is outstanding.
    public func allowJump(to date: RunLoop.Instant) { state.withLock { $0.mayJumpTo = date.nanoseconds } }

    /// It goes as the real clock does, and waits are real waits.
    public var followsRealTime: Bool {
        get { state.withLock { $0.followsRealTime } }
        set {
            state.withLock { state in
                state.stop()
                state.followsRealTime = newValue
                if newValue { state.flowsSince = linux_monotonic_now() }
            }
        }
    }

    // MARK: The pollers' side

    /// A place for a loop to come.
    ///
    /// - Throws: EMFILE and the like: it needs a descriptor.
    public func reserve() throws(SystemError) -> Place { try Place(self) }

    private func leave() {
        state.withLock { state in
            state.places -= 1
            // It may have been the last that was awake.
            for sleeper in state.sleepers { sleeper.place.bell.ring() }
        }
    }

    /// Returns when something is ready in the epoll instance, at the deadline, or, now and then, before that.
    func sleep(
        _ place: Place, in epoll: Int32, until deadline: Int64, watchesDescriptors: Bool,
        somethingIsOutstanding: () -> Bool, stuck: (() -> Void)?
    ) {
        place.bell.silence()
        state.withLock { state in
            state.sleepers.append(
                Sleeper(place: place, epoll: epoll, deadline: deadline, watchesDescriptors: watchesDescriptors))
        }
        let isOutstanding = somethingIsOutstanding()
        switch state.withLock({ decide(&$0, for: deadline, somethingIsOutstanding: isOutstanding) }) {
        case .awake: break
        case .sleep(let timeout): linux_poll_both(epoll, place.bell.number, timeout)
        case .stuck:
            if let stuck {
                stuck()
            } else {
                // Some other loop may know what to do about it.
                state.withLock { state in
                    for sleeper in state.sleepers where sleeper.place !== place { sleeper.place.bell.ring() }
                }
                linux_poll_both(epoll, place.bell.number, -1)
            }
        }
        state.withLock { state in
            if !state.followsRealTime { state.stop() }
            state.sleepers.removeAll { $0.place === place }
        }
    }

    private func decide(_ state: inout State, for deadline: Int64, somethingIsOutstanding: Bool) -> Decision {
        let now = state.now
        if deadline <= now { return .awake }
        let late = state.sleepers.filter { $0.deadline <= now }
        for sleeper in late { sleeper.place.bell.ring() }
        // Whoever still works decides when it falls asleep.
        guard late.isEmpty, state.sleepers.count == state.places, !state.sleepers.dropLast().contains(where: \.isReady)
        else {
            return .sleep(-1)
        }
        let next = state.sleepers.reduce(Int64.max) { min($0, $1.deadline) }
        let waitsForReal = somethingIsOutstanding || state.sleepers.contains(where: \.watchesDescriptors)
        if next < Self.end, next <= state.mayJumpTo || !state.isHeld && !waitsForReal {
            state.stop()
            state.time = next
            for sleeper in state.sleepers.dropLast() where sleeper.deadline <= next { sleeper.place.bell.ring() }
            return deadline <= next ? .awake : .sleep(-1)
        }
        guard waitsForReal else { return .stuck }
        if state.flowsSince == nil, !state.isHeld { state.flowsSince = linux_monotonic_now() }
        let limit = next == .max || state.isHeld ? -1 : max(1, next - now)
        // Nothing tells when what is outstanding is over: look again now and then.
        let pause: Int64 = 2_000_000
        return .sleep(somethingIsOutstanding ? limit < 0 ? pause : min(limit, pause) : limit)
    }
}
