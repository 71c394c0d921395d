internal import CLinux
public import Linux

/// The time of a simulated world. Any number of loops, each on its own thread, live in it through a `SimulatedPoller`.
///
/// While a loop works, time stands still. When all sleep, it jumps to the first deadline, unless something real may still
/// come before that: then real time passes here, too. All calls are safe on any thread.
public final class SimulatedClock: Sendable {
    /// What a loop that wants to sleep has to do.
    enum Decision {
        /// Its deadline is there, or its turn.
        case awake
        /// For so many real nanoseconds at most, negative: no limit; or until something is ready, if it may look for that.
        case sleep(Int64, looks: Bool)
        /// Nothing but the passing of time can happen, as somebody wanted to know.
        case settled
        case stuck
    }

    /// Where it ends, after 126 years: whoever sleeps longer never wakes, and sums of dates stay in range.
    static let end: Int64 = 4_000_000_000_000_000_000

    /// The number of the first loop, which is that of the main thread where what a test takes is counted.
    private static let mainLoop = 1

    let state: Lock<State>
    /// Whether something outside the loops, such as a child process, may still have to happen before time may pass.
    private let outstanding = Lock(Question { [] })

    // Not the function itself: taken out of something generic and put back it is wrapped once more, each time.
    private struct Question: Sendable {
        let whatIsOutstanding: @Sendable () -> Reasons
    }

    private let knowsOwnDescriptors: Bool

    /// - Parameters:
    ///   - wallClock: seconds since 1970 at the start.
    ///   - knowsOwnDescriptors: it jumps past descriptors that can become ready by this process alone: by its loops, that is, for
    ///     it must have no other threads.
    public init(
        start: RunLoop.Instant = .init(nanoseconds: 0), wallClock: Double = RunLoop.wallClock,
        knowsOwnDescriptors: Bool = false
    ) {
        state = Lock(State(time: start.nanoseconds, wallClock: wallClock - Double(start.nanoseconds) / 1e9))
        self.knowsOwnDescriptors = knowsOwnDescriptors
    }

    public var now: RunLoop.Instant {
        .init(
            nanoseconds: state.withLock { state in
                state.sync()
                state.reads += 1
                return state.now
            })
    }

    /// Seconds since 1970.
    public var wallClock: Double {
        state.withLock { state in
            state.sync()
            return state.wallClock + Double(state.now) / 1e9
        }
    }

    /// How many loops live in this world.
    public var loops: Int { state.withLock { $0.sleepers.count } }

    /// What real time has passed for, since the beginning.
    public var reasons: Reasons { state.withLock { $0.reasons } }

    /// The system calls that block the threads that are not waited for.
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

    /// How often somebody has asked for the time since a loop last slept.
    public var reads: Int { state.withLock { $0.reads } }

    /// Has it ask, before it jumps, what may still happen that no loop waits for.
    public func setOutstanding(_ whatIsOutstanding: @escaping @Sendable () -> Reasons) {
        outstanding.withLock { $0 = Question(whatIsOutstanding: whatIsOutstanding) }
    }

    /// Begins anew. Only while no other loop lives in this world.
    ///
    /// - Parameters:
    ///   - chance: loops work one at a time, in an order that this determines; nil: side by side.
    ///   - grain: real time shows in steps of so long, in nanoseconds.
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

    /// The same, but time goes on.
    public func refresh(chance: UInt64?) {
        state.withLock { state in
            state.chance = chance
            state.isHeld = false
            state.mayJumpTo = .min
            state.settles = nil
            state.reasons = []
        }
    }

    /// Moves the clock, as if a thread had been busy so long.
    public func advance(by duration: Duration) {
        state.withLock { $0.time = $0.time.addingSaturating(max(0, duration.wholeNanoseconds)) }
    }

    /// What it is at this moment by the wall clock, in seconds since 1970. As when somebody sets a real one, those who wait for a
    /// moment of it are told.
    public func setWallClock(_ seconds: Double) {
        let told = state.withLock { state in
            state.wallClock = seconds - Double(state.now) / 1e9
            // Members hear of it when they look.
            for place in state.lateMembers(at: .max) { state.wake(member: place) }
            return state.wallClockWatchers
        }
        for tell in told { tell() }
    }

    /// Has somebody told when the wall clock is set, until the clock begins anew.
    func whenWallClockIsSet(_ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.wallClockWatchers.append(changed) }
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
                state.unseen = 0
                state.followsRealTime = newValue
                if newValue { state.flowsSince = linux_monotonic_now() }
            }
        }
    }

    /// For a thread without a loop that is about to wake one: returns when all loops sleep, or after a moment. What that one then does comes
    /// behind what the others did, whenever the thread was done.
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

    // MARK: The pollers' side

    /// A place for a loop to come.
    ///
    /// - Throws: EMFILE and the like: it needs a descriptor.
    public func reserve() throws(SystemError) -> Place {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let place = try Place(self, number: number)
        state.withLock { state in
            var sleeper = Sleeper(number: number, bell: place.bell)
            // Who makes the first one works already.
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
            // It may have been the last that was awake.
            for sleeper in state.sleepers { sleeper.bell.ring() }
        }
    }

    /// Waits for a new loop's turn.
    func begin(_ place: Place) {
        let thread = linux_thread_number()
        state.withLock { state in
            guard let own = state.index(place.number) else { return }
            state.sleepers[own].thread = thread
        }
        awaitTurn(place)
    }

    /// Calls `body`, which may block: the others do not wait for this loop meanwhile.
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
            // nil: its turn has come.
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

    /// Returns when something is ready in the epoll instance, at the deadline, or, now and then, before that.
    ///
    /// - Parameters:
    ///   - watched: the descriptors in it, if they are known.
    ///   - told: called with true when everything has come to rest, as `settle` wanted to know; with false when nothing can
    ///     ever end the wait. Afterwards the wait goes on.
    func sleep(
        _ place: Place, in epoll: Int32, until deadline: Int64, watched: [CInt], watchesDescriptors: Bool,
        isOutstanding: () -> Bool, told: ((_ isSettled: Bool) -> Void)?
    ) {
        let everywhere = outstanding.withLock { $0 }.whatIsOutstanding
        // A loop by itself, as nearly all are.
        if !watchesDescriptors, !isOutstanding(), everywhere().isEmpty, linux_poll_now(epoll, Int16(POLLIN)) == 0,
            state.withLock({ $0.jump(alone: place.number, to: deadline) })
        {
            return
        }
        state.withLock { state in
            state.reads = 0
            guard let own = state.index(place.number) else { return }
            state.sleepers[own].status = .sleeping
            state.sleepers[own].epoll = epoll
            state.sleepers[own].deadline = deadline
            state.sleepers[own].watched = watched
            state.sleepers[own].watchesDescriptors = watchesDescriptors
        }
        while true {
            place.bell.silence()
            // First of all: what a program writes before it ends must be seen.
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
                    // Some other loop may know what to do about it.
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
            // Side by side, whoever wakes looks for itself.
            if state.withLock({ $0.chance == nil }) { break }
        }
        state.withLock { state in
            if !state.followsRealTime { state.stop() }
            state.run(place.number)
        }
    }

    /// Has the loop's `told` called as soon as nothing but the passing of time can happen in any loop.
    public func settle(_ place: Place) { state.withLock { $0.settles = place.number } }

    /// For how long, in nanoseconds, a loop that waits for its turn does not ask what the other one does.
    static let patience: Int64 = 5_000_000

    private func decide(_ state: inout State, _ number: Int, _ mayStillHappen: Reasons) -> Decision {
        guard let own = state.index(number) else { return .awake }
        state.sync()
        if state.chance == nil {
            let now = state.now
            if state.sleepers[own].deadline <= now { return .awake }
            let late = state.sleepers.filter { $0.status == .sleeping && $0.deadline <= now }
            for sleeper in late { sleeper.bell.ring() }
            // Whoever still works decides when it falls asleep.
            guard late.isEmpty, state.sleepers.allSatisfy({ $0.status == .sleeping }),
                !state.sleepers.contains(where: { $0.number != number && $0.isReady })
            else { return .sleep(-1, looks: true) }
        } else {
            // Given to it by another one.
            if state.sleepers[own].status == .running { return .awake }
            if state.isTaken { return .sleep(state.patience(of: own), looks: false) }
            if let chosen = state.give() { return chosen == own ? .awake : .sleep(state.patience(of: own), looks: false) }
            state.sleepers[own].isWatching = false
        }
        return state.decideAtRest(own, mayStillHappen, surroundings)
    }

    /// From where what the loops watch can become ready.
    private func surroundings(_ state: State) -> Int {
        if !knowsOwnDescriptors {
            return state.sleepers.contains { $0.watchesDescriptors } ? LINUX_OUTSIDE : LINUX_INSIDE
        }
        // Of those away: what they sleep in reading.
        let watched = state.sleepers.flatMap { $0.status == .sleeping || $0.status == .away ? $0.watched : [] }
        return watched.isEmpty ? LINUX_INSIDE : Int(linux_surroundings(watched, CInt(watched.count)))
    }
}
