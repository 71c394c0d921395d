internal import CLinux
public import Linux

/// The clock of a simulated world, in which any number of loops live, each on its own thread and with its own
/// `SimulatedPoller`.
///
/// While a loop works, time stands still. When all loops sleep, the clock jumps to the first deadline. If a real event
/// may come before that, real time passes instead until it comes. All calls are safe on any thread.
public final class SimulatedClock: Sendable {
    /// The decision for a loop that wants to sleep.
    enum Decision {
        /// The loop's deadline has come, or its turn.
        case awake
        /// The loop sleeps for at most this many real nanoseconds; no limit if negative. If `looks` is true, the loop
        /// also wakes when a descriptor is ready.
        case sleep(Int64, looks: Bool)
        /// Nothing can happen before time passes. This decision ends a wait after `settle`.
        case settled
        case stuck
    }

    /// The end of simulated time, after 126 years. A later deadline never comes, and sums of dates stay in range.
    static let end: Int64 = 4_000_000_000_000_000_000

    /// The number of the first loop. In a test process it is the loop of the main thread, whose times are counted.
    private static let mainLoop = 1

    let state: Lock<State>
    /// Returns what must still happen outside the loops before time may pass, such as the work of a child process.
    private let outstanding = Lock(Question { [] })

    // A closure in a generic container is wrapped once more by each read and write; a struct avoids that.
    private struct Question: Sendable {
        let whatIsOutstanding: @Sendable () -> Reasons
    }

    private let knowsOwnDescriptors: Bool

    /// - Parameters:
    ///   - start: The first time of the monotonic clock.
    ///   - wallClock: The first time of the wall clock, in seconds since 1970.
    ///   - knowsOwnDescriptors: If true, time may pass while loops wait for descriptors that only loops of this process
    ///     can make ready. The process must have no other threads.
    public init(
        start: RunLoop.Instant = .init(nanoseconds: 0), wallClock: Double = RunLoop.wallClock,
        knowsOwnDescriptors: Bool = false
    ) {
        state = Lock(State(time: start.nanoseconds, wallClock: wallClock - Double(start.nanoseconds) / 1e9))
        self.knowsOwnDescriptors = knowsOwnDescriptors
    }

    /// The time of the monotonic clock.
    public var now: RunLoop.Instant {
        .init(
            nanoseconds: state.withLock { state in
                state.sync()
                state.reads += 1
                return state.now
            })
    }

    /// The time of the wall clock, in seconds since 1970.
    public var wallClock: Double {
        state.withLock { state in
            state.sync()
            return state.wallClock + Double(state.now) / 1e9
        }
    }

    /// The number of loops in this world.
    public var loops: Int { state.withLock { $0.sleepers.count } }

    /// The reasons for which real time has passed since the beginning.
    public var reasons: Reasons { state.withLock { $0.reasons } }

    /// For each loop with the status `away`: the system call in which its thread is blocked.
    public var callsOfThreads: [String] {
        let threads = state.withLock { state in state.sleepers.filter { $0.status == .away }.map(\.thread) }
        return threads.compactMap { thread in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 300) { text in
                guard let base = text.baseAddress else { return nil }
                linux_call_of_thread(thread, base, 300)
                return base.pointee == 0 ? nil : String(cString: base)
            }
        }
    }

    /// How often the time was read since a loop last slept.
    public var reads: Int { state.withLock { $0.reads } }

    /// Sets a function that returns the events that may still come although no loop waits for them. The clock calls it
    /// before each jump.
    public func setOutstanding(_ whatIsOutstanding: @escaping @Sendable () -> Reasons) {
        outstanding.withLock { $0 = Question(whatIsOutstanding: whatIsOutstanding) }
    }

    /// Restarts the clock with a new state. Allowed only while no other loop lives in this world.
    ///
    /// - Parameters:
    ///   - start: The first time of the monotonic clock.
    ///   - wallClock: The first time of the wall clock, in seconds since 1970.
    ///   - chance: The seed for the order in which loops work, one at a time. Nil: loops work side by side.
    ///   - grain: The clock rounds real time down to a multiple of this number of nanoseconds.
    public func reset(
        to start: RunLoop.Instant = .init(nanoseconds: 0), wallClock: Double = RunLoop.wallClock, chance: UInt64? = nil,
        grain: Int64 = 1
    ) {
        state.withLock { state in
            let sleepers = state.sleepers
            let family = state.family
            let last = sleepers.reduce(0) { max($0, $1.number) }
            state = State(time: start.nanoseconds, wallClock: wallClock - Double(start.nanoseconds) / 1e9)
            state.family = family
            state.unrest()
            state.publish()
            state.sleepers = sleepers
            state.lastNumber = last
            state.chance = chance
            state.grain = max(1, grain)
        }
    }

    /// Restores the settings, as `reset` does, but time goes on.
    public func refresh(chance: UInt64?) {
        state.withLock { state in
            state.chance = chance
            state.isHeld = false
            state.mayJumpTo = .min
            state.settles = nil
            state.reasons = []
        }
    }

    /// Moves the clock, as if a thread had been busy for this long.
    public func advance(by duration: Duration) {
        state.withLock { $0.time = $0.time.addingSaturating(max(0, duration.wholeNanoseconds)) }
    }

    /// Sets the wall clock, in seconds since 1970. Loops that wait for a time of the wall clock are notified, as when
    /// the system's clock is set.
    public func setWallClock(_ seconds: Double) {
        let told = state.withLock { state in
            state.wallClock = seconds - Double(state.now) / 1e9
            // Members notice the change when they look at the clock.
            for place in state.lateMembers(at: .max) { state.wake(member: place) }
            return state.wallClockWatchers
        }
        for tell in told { tell() }
    }

    /// Adds a callback that runs when the wall clock is set. `reset` removes the callback.
    func whenWallClockIsSet(_ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.wallClockWatchers.append(changed) }
    }

    /// Whether the clock is held: it then jumps only as far as `allowJump` permits.
    public var isHeld: Bool {
        get { state.withLock { $0.isHeld } }
        set { state.withLock { $0.isHeld = newValue } }
    }

    /// Lets the clock jump to a date even while it is held, or while an event of the real world is still expected.
    public func allowJump(to date: RunLoop.Instant) { state.withLock { $0.mayJumpTo = date.nanoseconds } }

    /// Whether time follows the real clock, with real waits.
    public var followsRealTime: Bool {
        get { state.withLock { $0.followsRealTime } }
        set {
            state.withLock { state in
                state.stop()
                state.unseen = 0
                state.followsRealTime = newValue
                if newValue { state.flowsSince = linux_monotonic_now() }
            }
        }
    }

    /// Returns when all loops sleep, or after 200 ms. A thread without a loop calls this before it wakes a loop. The
    /// woken code then always runs after the present work of the loops, however early the thread was done.
    public func awaitRest() {
        let limit = linux_monotonic_now() + 200_000_000
        while linux_monotonic_now() < limit {
            let isAtRest = state.withLock { state in
                state.followsRealTime || state.sleepers.allSatisfy { $0.status == .sleeping && !$0.isReady }
            }
            if isAtRest { return }
            linux_poll_all(-1, -1, -1, 50_000)
        }
    }

    // MARK: For pollers

    /// Reserves a place for a loop that is made later.
    ///
    /// - Throws: EMFILE and similar errors, since a place needs a descriptor.
    public func reserve() throws(SystemError) -> Place {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let place = try Place(self, number: number)
        state.withLock { state in
            var sleeper = Sleeper(number: number, bell: place.bell)
            // The thread that reserves the first place works already.
            if state.sleepers.isEmpty || state.chance == nil { sleeper.status = .running }
            sleeper.runsSince = linux_monotonic_now()
            sleeper.thread = linux_thread_number()
            state.sleepers.append(sleeper)
        }
        return place
    }

    func leave(_ number: Int) {
        state.withLock { state in
            state.sleepers.removeAll { $0.number == number }
            // The loop that leaves may have been the last one that was awake.
            for sleeper in state.sleepers { sleeper.bell.ring() }
        }
    }

    /// Waits for the first turn of a new loop.
    func begin(_ place: Place) {
        let thread = linux_thread_number()
        state.withLock { state in
            guard let own = state.index(place.number) else { return }
            state.sleepers[own].thread = thread
        }
        awaitTurn(place)
    }

    /// Calls `body`, which may block. The other loops do not wait for this loop meanwhile.
    public func whileAway<Result>(_ place: Place, _ body: () -> Result) -> Result {
        state.withLock { state in
            guard let own = state.index(place.number), state.chance != nil else { return }
            state.sleepers[own].status = .away
            for sleeper in state.sleepers { sleeper.bell.ring() }
        }
        let result = body()
        let waits = state.withLock { state in
            guard let own = state.index(place.number), state.chance != nil else { return false }
            state.sleepers[own].status = .starting
            return true
        }
        if waits { awaitTurn(place) }
        return result
    }

    private func awaitTurn(_ place: Place) {
        while true {
            place.bell.silence()
            // Nil when the turn has come.
            let patience: Int64? = state.withLock { state in
                guard let own = state.index(place.number), state.chance != nil, !state.followsRealTime else {
                    return nil
                }
                if state.sleepers[own].status != .starting { return nil }
                state.sync()
                if !state.isTaken, state.give() == own { return nil }
                return state.patience(of: own)
            }
            guard let patience else { return state.withLock { $0.run(place.number) } }
            linux_poll_all(-1, place.bell.number, -1, patience)
        }
    }

    /// Returns when something is ready in the epoll instance, at the deadline, or sometimes earlier.
    ///
    /// - Parameters:
    ///   - place: The place of the loop.
    ///   - epoll: The epoll instance with the loop's descriptors.
    ///   - deadline: Nanoseconds of this clock.
    ///   - watched: The descriptors in it, if known.
    ///   - watchesDescriptors: Whether the loop watches any descriptors.
    ///   - isOutstanding: Whether something outside this loop must still happen before time may pass.
    ///   - told: Called with true when all loops rest after `settle`, and with false when nothing can ever end the
    ///     wait. After the call the wait continues.
    func sleep(
        _ place: Place, in epoll: Int32, until deadline: Int64, watched: [CInt], watchesDescriptors: Bool,
        isOutstanding: () -> Bool, told: ((_ isSettled: Bool) -> Void)?
    ) {
        let everywhere = outstanding.withLock { $0 }.whatIsOutstanding
        // The fast path for a single loop, which is the usual case.
        if !watchesDescriptors, !isOutstanding(), everywhere().isEmpty, linux_poll_now(epoll, Int16(POLLIN)) == 0,
            state.withLock({ $0.jump(alone: place.number, to: deadline) })
        {
            return
        }
        state.withLock { state in
            state.reads = 0
            guard let own = state.index(place.number) else { return }
            state.sleepers[own].fallAsleep(in: epoll, until: deadline, watched, watches: watchesDescriptors)
        }
        while true {
            place.bell.silence()
            // Ask this before the decision: a program may write data and end, and the decision must then see the data.
            let mayStillHappen = everywhere().union(isOutstanding() ? .programs : [])
            var limit: Int64 = 0
            var looks = true
            var isOver = false
            let (decision, company, changes, waitsReally) = state.withLock { state in
                state.hearMembers()
                state.hearGuardian()
                state.waitsReally = false
                let decision = decide(&state, place.number, mayStillHappen)
                if case .sleep(let limit, looks: true) = decision,
                    state.waitsReally || limit < 0 || limit > Self.patience, let own = state.index(place.number)
                {
                    state.haveOthersLook(own)
                }
                return (decision, state.company, state.takeWatchersToTell(), state.waitsReally)
            }
            for tell in changes { tell() }
            switch decision {
            case .awake: isOver = true
            case .sleep(let timeout, let mayLook): (limit, looks) = (timeout, mayLook)
            case .settled: told?(true)
            case .stuck:
                if let told {
                    told(false)
                    isOver = state.withLock { $0.chance == nil }
                } else {
                    // Another loop may have a handler for the case that nothing can end the wait.
                    state.withLock { state in
                        for sleeper in state.sleepers where sleeper.number != place.number { sleeper.bell.ring() }
                    }
                    limit = -1
                }
            }
            if isOver { break }
            if limit != 0 {
                let rests = place.number == Self.mainLoop && !waitsReally
                if rests { linux_count_rest(1) }
                linux_poll_all(looks ? epoll : -1, place.bell.number, company, limit)
                if rests { linux_count_rest(0) }
            }
            // When loops work side by side, each loop that wakes checks for itself.
            if state.withLock({ $0.chance == nil }) { break }
        }
        state.withLock { state in
            if !state.followsRealTime { state.stop() }
            state.run(place.number)
        }
    }

    /// Calls the loop's `told` as soon as only the passing of time can make anything happen in any loop.
    public func settle(_ place: Place) { state.withLock { $0.settles = place.number } }

    /// Nanoseconds for which a loop waits for its turn before it checks whether the loop that has the turn is blocked.
    static let patience: Int64 = 5_000_000

    private func decide(_ state: inout State, _ number: Int, _ mayStillHappen: Reasons) -> Decision {
        guard let own = state.index(number) else { return .awake }
        state.sync()
        if state.chance == nil {
            let now = state.now
            if state.sleepers[own].deadline <= now { return .awake }
            let late = state.sleepers.filter { $0.status == .sleeping && $0.deadline <= now }
            for sleeper in late { sleeper.bell.ring() }
            // A loop that still works decides when it falls asleep.
            guard late.isEmpty, state.sleepers.allSatisfy({ $0.status == .sleeping }),
                !state.sleepers.contains(where: { $0.number != number && $0.isReady })
            else { return .sleep(-1, looks: true) }
        } else {
            // Another loop has given this one the turn.
            if state.sleepers[own].status == .running { return .awake }
            if state.isTaken { return .sleep(state.patience(of: own), looks: false) }
            if let chosen = state.give() {
                return chosen == own ? .awake : .sleep(state.patience(of: own), looks: false)
            }
            state.sleepers[own].isWatching = false
        }
        return state.decideAtRest(own, mayStillHappen, surroundings)
    }

    /// Returns the source of the events that can make the watched descriptors ready: this process or the outside.
    private func surroundings(_ state: State) -> Int {
        if !knowsOwnDescriptors {
            return state.sleepers.contains { $0.watchesDescriptors } ? LINUX_OUTSIDE : LINUX_INSIDE
        }
        // For a loop with the status `away`, this is the descriptor that its thread waits to read.
        let watched = state.sleepers.flatMap { $0.status == .sleeping || $0.status == .away ? $0.watched : [] }
        return watched.isEmpty ? LINUX_INSIDE : Int(linux_surroundings(watched, CInt(watched.count)))
    }
}
