internal import CLinux
internal import Linux

extension SimulatedClock {
    struct State: Sendable {
        var time: Int64 { didSet { publish() } }
        var wallClock: Double { didSet { publish() } }
        /// Who is told when that is set.
        var wallClockWatchers: [@Sendable () -> Void] = []
        /// Since when, by the real clock, time passes by itself.
        var flowsSince: Int64? { didSet { publish() } }
        /// Real time that has passed, and does not show yet.
        var unseen: Int64 = 0 { didSet { publish() } }
        /// What real time shows in: less than that stays unseen, unless somebody's deadline is in it.
        var grain: Int64 = 1 { didSet { publish() } }
        var followsRealTime = false
        var isHeld = false
        /// Up to here it may jump, whatever is outstanding.
        var mayJumpTo = Int64.min
        var sleepers: [Sleeper] = []
        var lastNumber = 0
        /// One loop works at a time; whose turn it is, chance decides, which this determines. nil: they work side by side.
        var chance: UInt64?
        /// The loop that wants to know when everything has come to rest.
        var settles: Int?
        /// The loop that decides is about to wait in real time, not for another one's turn.
        var waitsReally = false
        /// How long the same data has been on the way.
        var waysSince: Int64?
        /// Since when nothing but answers of this process's own threads is outstanding, without a loop that has run.
        var answersSince: Int64?
        var reasons = Reasons()
        /// How often somebody has asked for the time since a loop last slept.
        var reads = 0
        /// Other processes that live in this time; or, of one of these, where it finds the time and whom it tells of itself.
        var family: SimulatedClock.Family?
        var page: SimulatedClock.Page?
        var guardian: SimulatedClock.Guardian?
        /// It has been set by another process, and those who watch it are still to be told.
        var wallClockHasChanged = false

        /// What has passed, to the nanosecond.
        var passed: Int64 {
            time.addingSaturating(unseen + (flowsSince.map { linux_monotonic_now() - $0 } ?? 0))
        }

        /// The first date at which somebody wants to wake up.
        var next: Int64 {
            sleepers.reduce(nextOfMembers) { $1.status == .sleeping ? min($0, $1.deadline) : $0 }
        }

        /// What it shows. Deadlines show exactly.
        var now: Int64 {
            guard flowsSince != nil || unseen > 0 else { return time }
            let passed = passed
            if followsRealTime { return passed }
            let next = next
            if next > time, next <= passed { return next }
            return time + (passed - time) / grain * grain
        }

        /// Real time no longer passes. What has passed unseen up to a deadline that is shown has passed, or that would move away again
        /// from the one who wakes at it.
        mutating func stop() {
            guard flowsSince != nil || unseen > 0 else { return }
            let passed = passed
            let shown = now
            time = shown
            unseen = min(passed - shown, grain - 1)
            flowsSince = nil
        }

        /// The place of a loop. It is there as long as the loop is.
        func index(_ number: Int) -> Int? { sleepers.firstIndex { $0.number == number } }

        /// SplitMix64.
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

// What a loop decides for all when it falls asleep.
extension SimulatedClock.State {
    /// For how long, in nanoseconds, a thread may stay in one system call before the others no longer wait for it; and for how
    /// long it may work.
    private static let restLimit: Int64 = 20_000_000
    private static let workLimit: Int64 = 1_000_000_000
    /// How often one looks whether another one blocks.
    private static let watchInterval: Int64 = 11_000_000

    /// For the only loop there is, when nothing outside can happen: jumps to its deadline. Returns false when there is more to it.
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

    /// Whether some loop works: then it is nobody else's turn. One that blocks is not waited for.
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

    /// Whether a loop's thread has been in the same system call for a while.
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

    /// Gives the turn to one of those that can go on; returns which, or nil if none can.
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

    /// For how long one that waits for its turn may sleep, in nanoseconds. Whoever has the turn hands it over by a wake-up; one of the others
    /// looks meanwhile whether it blocks.
    mutating func patience(of own: Int) -> Int64 {
        let others = sleepers.indices.filter { $0 != own && sleepers[$0].isWatching }
        sleepers[own].isWatching = others.isEmpty
        sleepers[own].looks = false
        return others.isEmpty ? Self.watchInterval : -1
    }

    /// One is about to sleep for long, or in real time: from now on each wakes for its own descriptors.
    mutating func haveOthersLook(_ own: Int) {
        guard chance != nil else { return }
        sleepers[own].looks = true
        for sleeper in sleepers where sleeper.status == .sleeping && !sleeper.looks { sleeper.bell.ring() }
    }

    /// From now on this one is not waiting.
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

    /// Whether a thread that is not waited for works. One that sleeps in reading a descriptor does not: it is like a loop that watches that.
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
            // It may have run since the others were looked at: not if it has not run until the next look.
            if before != switches { isBusy = true }
            sleepers[i].watched = [descriptor]
            sleepers[i].blockedSwitches = switches
        }
        return isBusy
    }

    /// Nothing can happen at this moment: it passes.
    mutating func decideAtRest(
        _ own: Int, _ outstanding: SimulatedClock.Reasons, _ surroundings: (Self) -> Int
    ) -> SimulatedClock.Decision {
        // Not before they are at rest, too.
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
            // A moment later it is there.
            let began = waysSince ?? linux_monotonic_now()
            waysSince = began
            if linux_monotonic_now() - began < 200_000_000 { return .sleep(500_000, looks: true) }
        } else {
            waysSince = nil
        }
        if outstanding == .answers, !isBusy {
            // As a file has it at once, nearly always: then no time passes, and tests see the same clock each time.
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
        guard waitsForReal || around == LINUX_LISTENS && !isHeld else { return .stuck }
        waitsReally = true
        reasons.formUnion(outstanding)
        if isBusy { reasons.insert(.threads) }
        if around >= LINUX_ON_THE_WAY { reasons.insert(.descriptors) }
        if around == LINUX_LISTENS { reasons.insert(.listeners) }
        if flowsSince == nil, !isHeld { flowsSince = linux_monotonic_now() }
        var limit = next == .max || isHeld ? -1 : max(1, next - passed)
        // Nothing tells when what is outstanding is over: look again now and then.
        if mayStillHappen || isBusy { limit = limit < 0 ? 2_000_000 : min(limit, 2_000_000) }
        return .sleep(limit, looks: true)
    }
}
