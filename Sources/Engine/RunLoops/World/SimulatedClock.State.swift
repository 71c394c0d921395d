internal import CLinux
internal import Linux

extension SimulatedClock {
    struct State: Sendable {
        var time: Int64 { didSet { publish() } }
        var wallClock: Double { didSet { publish() } }
        /// Called when the wall clock is set.
        var wallClockWatchers: [@Sendable () -> Void] = []
        /// The real time, in nanoseconds, from which on the clock follows real time; nil if the clock stands still.
        var flowsSince: Int64? { didSet { publish() } }
        /// Nanoseconds of real time that have passed, and that `now` does not include yet.
        var unseen: Int64 = 0 { didSet { publish() } }
        /// The step, in nanoseconds, by which real time moves the clock. The clock does not show a smaller amount,
        /// unless a deadline lies within it.
        var grain: Int64 = 1 { didSet { publish() } }
        var followsRealTime = false
        var isHeld = false
        /// The clock may jump up to this time even while an event of the real world is still expected.
        var mayJumpTo = Int64.min
        var sleepers: [Sleeper] = []
        var lastNumber = 0
        /// The state of the random generator that decides which loop works next, one at a time. Nil: loops work side by
        /// side.
        var chance: UInt64?
        /// The number of the loop that called `settle`.
        var settles: Int?
        /// Whether the loop that decides is about to wait for the real world, not for the turn of another loop.
        var waitsReally = false
        /// The real time at which the clock first noticed the data that is still on its way to a descriptor.
        var waysSince: Int64?
        /// The real time at which the loops began to wait only for calls that other threads of this process make for
        /// them, such as reading a file. Nil if a loop has run since then.
        var answersSince: Int64?
        /// The real time since which nothing has been able to end the wait.
        var stuckSince: Int64?
        var reasons = Reasons()
        /// How often the time was read since a loop last slept.
        var reads = 0
        /// The guardian's state, if other processes share this time; in a member, the page with the time and the
        /// connection to the guardian.
        var family: SimulatedClock.Family?
        var page: SimulatedClock.Page?
        var guardian: SimulatedClock.Guardian?
        /// Whether another process has set the wall clock and the watchers have not been called yet.
        var wallClockHasChanged = false

        /// The time with all real time that has passed, to the nanosecond.
        var passed: Int64 {
            time.addingSaturating(unseen + (flowsSince.map { linux_monotonic_now() - $0 } ?? 0))
        }

        /// The earliest deadline of all sleeping loops and resting members.
        var next: Int64 {
            sleepers.reduce(nextOfMembers) { $1.status == .sleeping ? min($0, $1.deadline) : $0 }
        }

        /// The time that the clock shows: a multiple of `grain`, or the exact time of a deadline within the current
        /// step.
        var now: Int64 {
            guard flowsSince != nil || unseen > 0 else { return time }
            let passed = passed
            if followsRealTime { return passed }
            let next = next
            if next > time, next <= passed { return next }
            return time + (passed - time) / grain * grain
        }

        /// Stops following real time. If the clock shows a deadline, the time up to the deadline counts as passed: the
        /// clock must not go back for the loop that wakes then.
        mutating func stop() {
            guard flowsSince != nil || unseen > 0 else { return }
            let passed = passed
            let shown = now
            time = shown
            unseen = min(passed - shown, grain - 1)
            flowsSince = nil
        }

        /// The index of a loop in `sleepers`; nil if the loop has ended.
        func index(_ number: Int) -> Int? { sleepers.firstIndex { $0.number == number } }

        /// Draws a number below `count`, by SplitMix64.
        mutating func draw(_ count: Int) -> Int {
            guard let chance, count > 1 else { return 0 }
            let state = chance &+ 0x9E37_79B9_7F4A_7C15
            self.chance = state
            var z = state
            z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
            return Int((z ^ (z >> 31)) % UInt64(count))
        }
    }
}

// The decisions that a loop makes for all loops when it falls asleep.
extension SimulatedClock.State {
    /// The limits, in nanoseconds, for a thread in one system call and for a thread that works: after that, the other
    /// loops do not wait for it.
    private static let restLimit: Int64 = 20_000_000
    private static let workLimit: Int64 = 1_000_000_000
    /// Nanoseconds between two checks whether another loop blocks.
    private static let watchInterval: Int64 = 11_000_000

    /// Jumps to the deadline of the only loop if nothing outside can happen. Returns false if the full decision is
    /// needed.
    mutating func jump(alone number: Int, to deadline: Int64) -> Bool {
        guard sleepers.count == 1, sleepers[0].number == number, flowsSince == nil, settles == nil,
            guardian == nil, family?.members.isEmpty ?? true,
            deadline < SimulatedClock.end, !isHeld || deadline <= mayJumpTo
        else { return false }
        reads = 0
        unseen = 0
        time = max(time, deadline)
        return true
    }

    /// Whether some loop works, so that no other one gets the turn. Loops that block count as away.
    var isTaken: Bool {
        mutating get {
            let now = linux_monotonic_now()
            var isTaken = memberWorks
            for i in sleepers.indices where sleepers[i].status == .running {
                if now - sleepers[i].runsSince > Self.workLimit || rests(i, now) {
                    sleepers[i].status = .away
                } else {
                    isTaken = true
                }
            }
            return isTaken
        }
    }

    /// Whether a loop's thread has been in the same system call for some time.
    private mutating func rests(_ i: Int, _ now: Int64) -> Bool {
        guard now - sleepers[i].runsSince > SimulatedClock.patience / 2 else { return false }
        var switches = 0
        guard linux_thread_rests(sleepers[i].thread, &switches) == 1 else {
            sleepers[i].restsSince = nil
            return false
        }
        if sleepers[i].switches != switches || sleepers[i].restsSince == nil { sleepers[i].restsSince = now }
        sleepers[i].switches = switches
        return now - (sleepers[i].restsSince ?? now) > Self.restLimit
    }

    /// Gives the turn to one of the loops and members that can continue. Returns the index of the chosen loop; nil if
    /// it is a member or none can continue.
    mutating func give() -> Int? {
        let now = now
        let able = sleepers.indices.filter { i in
            sleepers[i].status == .starting
                || sleepers[i].status == .sleeping && (sleepers[i].deadline <= now || sleepers[i].isReady)
        }
        let late = lateMembers(at: now)
        guard !able.isEmpty || !late.isEmpty else { return nil }
        let number = draw(able.count + late.count)
        if !followsRealTime { stop() }
        guard number < able.count else {
            wake(member: late[number - able.count])
            return nil
        }
        let chosen = able[number]
        run(sleepers[chosen].number)
        tellOfWork()
        sleepers[chosen].bell.ring()
        return chosen
    }

    /// Returns the nanoseconds for which a loop that waits for its turn may sleep. The loop that has the turn wakes the
    /// next one; one of the waiting loops checks meanwhile whether it blocks.
    mutating func patience(of own: Int) -> Int64 {
        let others = sleepers.indices.filter { $0 != own && sleepers[$0].isWatching }
        sleepers[own].isWatching = others.isEmpty
        sleepers[own].looks = false
        return others.isEmpty ? Self.watchInterval : -1
    }

    /// Makes all other sleeping loops wake and poll their own descriptors, before this loop sleeps long or in real
    /// time.
    mutating func haveOthersLook(_ own: Int) {
        guard chance != nil else { return }
        sleepers[own].looks = true
        for sleeper in sleepers where sleeper.status == .sleeping && !sleeper.looks { sleeper.bell.ring() }
    }

    /// Marks a loop as running.
    mutating func run(_ number: Int) {
        guard let own = index(number) else { return }
        sleepers[own].isWatching = false
        sleepers[own].looks = false
        sleepers[own].status = .running
        sleepers[own].runsSince = linux_monotonic_now()
        sleepers[own].restsSince = nil
        answersSince = nil
        unrest()
    }

    /// Whether a thread whose status is `away` works. A thread that sleeps in a read of a descriptor does not work: it
    /// counts like a loop that watches the descriptor.
    private mutating func someThreadIsBusy() -> Bool {
        var isBusy = false
        for i in sleepers.indices where sleepers[i].status == .away {
            let before = sleepers[i].blockedSwitches
            sleepers[i].watched = []
            sleepers[i].blockedSwitches = nil
            let descriptor = linux_read_by_thread(sleepers[i].thread)
            var switches = 0
            guard descriptor >= 0, linux_thread_rests(sleepers[i].thread, &switches) == 1 else {
                isBusy = true
                continue
            }
            // The thread may have run since the others were checked. If its count of waits is the same at the next
            // check, the thread has not run.
            if before != switches { isBusy = true }
            sleepers[i].watched = [descriptor]
            sleepers[i].blockedSwitches = switches
        }
        return isBusy
    }

    /// Decides how time passes when no loop and no member can do anything at this moment.
    mutating func decideAtRest(
        _ own: Int, _ outstanding: SimulatedClock.Reasons, _ surroundings: (Self) -> Int
    ) -> SimulatedClock.Decision {
        let suspected = stuckSince
        stuckSince = nil
        // The other processes that share this time must rest, too.
        if membersAreBusy() { return .sleep(SimulatedClock.patience, looks: true) }
        let members = family?.members ?? []
        let ofMembers: SimulatedClock.Reasons = members.contains { $0.rests && $0.isOutstanding } ? .programs : []
        let outstanding = outstanding.union(ofMembers)
        let mayStillHappen = !outstanding.isEmpty
        let isBusy = someThreadIsBusy() || members.contains { !$0.rests && !$0.isBlocked }
        let around = members.reduce(mayStillHappen || isBusy ? LINUX_INSIDE : surroundings(self)) {
            $1.rests ? max($0, Int($1.surroundings)) : $0
        }
        if around == LINUX_ON_THE_WAY {
            // The data arrives in a moment.
            let began = waysSince ?? linux_monotonic_now()
            waysSince = began
            if linux_monotonic_now() - began < 200_000_000 { return .sleep(500_000, looks: true) }
        } else {
            waysSince = nil
        }
        if outstanding == .answers, !isBusy {
            // Results of other threads, such as those of reading a file, nearly always come at once. If time stands
            // still until they come, tests see the same clock in each run.
            let began = answersSince ?? linux_monotonic_now()
            answersSince = began
            if linux_monotonic_now() - began < 200_000_000 { return .sleep(2_000_000, looks: true) }
        }
        if guardian != nil { return .sleep(tellOfRest(mayStillHappen || isBusy, around), looks: true) }
        if let settler = settles {
            guard let place = index(settler), place != own else {
                settles = nil
                return .settled
            }
            sleepers[place].bell.ring()
            return .sleep(SimulatedClock.patience, looks: true)
        }
        let next = next
        let waitsForReal = mayStillHappen || isBusy || around >= LINUX_ON_THE_WAY
        if next < SimulatedClock.end, next <= mayJumpTo || !isHeld && !waitsForReal {
            stop()
            time = next
            unseen = 0
            guard chance != nil else {
                for i in sleepers.indices where i != own && sleepers[i].deadline <= next { sleepers[i].bell.ring() }
                for place in lateMembers(at: next) { wake(member: place) }
                return sleepers[own].deadline <= next ? .awake : .sleep(-1, looks: true)
            }
            return give() == own ? .awake : .sleep(patience(of: own), looks: false)
        }
        guard waitsForReal || around == LINUX_LISTENS && !isHeld else {
            // The check looked at one program after the other while they continued: check again before the test fails.
            let now = linux_monotonic_now()
            let began = suspected.map { now - $0 < 1_000_000_000 ? $0 : now } ?? now
            stuckSince = began
            return now - began < 20_000_000 ? .sleep(2_000_000, looks: true) : .stuck
        }
        waitsReally = true
        reasons.formUnion(outstanding)
        if isBusy { reasons.insert(.threads) }
        if around >= LINUX_ON_THE_WAY { reasons.insert(.descriptors) }
        if around == LINUX_LISTENS { reasons.insert(.listeners) }
        if flowsSince == nil, !isHeld { flowsSince = linux_monotonic_now() }
        var limit = next == .max || isHeld ? -1 : max(1, next - passed)
        // No event reports when the outstanding work ends, so look again every 2 ms.
        if mayStillHappen || isBusy { limit = limit < 0 ? 2_000_000 : min(limit, 2_000_000) }
        return .sleep(limit, looks: true)
    }
}
