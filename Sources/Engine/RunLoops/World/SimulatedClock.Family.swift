internal import CLinux
package import Linux

// Other processes may share a simulated time. The process that made the time is its guardian and decides when it jumps.
// The other processes are its members. A member reports to the guardian when it rests and for how long, and reads the
// time from a page of shared memory.

extension SimulatedClock {
    /// The shared page from which members read the time.
    final class Page: @unchecked Sendable {
        // Sendable: the memory is never unmapped, and its contents are atomic.
        let memory: OpaquePointer
        init(_ memory: OpaquePointer) { self.memory = memory }
    }

    /// Another process that shares this time.
    struct Member: Sendable {
        let process: Int32
        /// Nil until the process has connected.
        var connection: Descriptor?
        var rests = false
        /// Whether all threads of the member sleep until another process writes to it, although the member has not
        /// reported that it rests.
        var isBlocked = false
        /// The real time, in nanoseconds, at which the member began its present work, or at which the guardian sent the
        /// question that the member has not answered yet.
        var since = linux_monotonic_now()
        var deadline = Int64.max
        var activity: Int64 = 0
        /// The member's `activity` at its previous answer.
        var activityBefore: Int64 = -1
        var isOutstanding = false
        var surroundings: Int32 = 0
        /// The number of the last question that it has answered.
        var answered: Int32 = 0
    }

    /// A member's connection to the guardian.
    struct Guardian: Sendable {
        let connection: Descriptor
        var asked: Int32 = 0
        var activity: Int64 = 0
        /// The last report of this member that it rests; nil if the member works again.
        var said: (deadline: Int64, isOutstanding: Bool, surroundings: Int32)?
    }

    /// The state of a guardian.
    struct Family: Sendable {
        let page: Page
        let memory: Int32
        let address: String
        let listener: Descriptor
        /// An epoll instance that is readable when the listener or a member has data.
        let ears: Descriptor
        var members: [Member] = []
        /// The number of the last question.
        var round: Int32 = 0
        /// Whether some member has not answered the last question yet.
        var isAsking = false
        /// Whether all members have answered twice that they rest, without any work in between.
        var isAtRest = false
    }

    /// The address with which other processes join this time; see `init(joining:)`. Only one clock of a process can
    /// have a family.
    ///
    /// - Throws: EMFILE and similar errors.
    package func familyAddress() throws(SystemError) -> String {
        if let address = state.withLock({ $0.family?.address }) { return address }
        var descriptor: Int32 = -1
        guard let memory = linux_make_family(&descriptor) else { throw SystemError("memfd_create") }
        let name = "rlhost-clock-\(linux_process_number())-\(UInt64.random(in: .min ... .max))"
        let listener = try Descriptor(linux_listen_to_family(name), "listen", name)
        let ears = try Descriptor(linux_new_ears(), "epoll_create")
        guard linux_add_ear(ears.number, listener.number) == 0 else { throw SystemError("epoll_ctl") }
        let address = "\(linux_process_number()):\(descriptor):\(name)"
        state.withLock { state in
            state.family = Family(
                page: Page(memory), memory: descriptor, address: address, listener: listener, ears: ears)
            state.publish()
        }
        return address
    }

    /// Whether a descriptor of this process belongs to the family.
    package func owns(_ descriptor: Int32) -> Bool {
        state.withLock { state in
            guard let family = state.family else { return false }
            return [family.memory, family.listener.number, family.ears.number].contains(descriptor)
                || family.members.contains { $0.connection?.number == descriptor }
        }
    }

    /// Announces a process that was started to join this time. Time stands still until it has joined, for five seconds
    /// at most.
    package func expectMember(_ process: Int32) {
        state.withLock { state in
            guard let family = state.family, !family.members.contains(where: { $0.process == process }) else { return }
            state.family?.members.append(Member(process: process))
            state.unrest()
            state.publishMembers()
        }
    }

    /// Forgets a process that has ended, whether or not it had joined.
    package func forgetMember(_ process: Int32) {
        state.withLock { state in
            guard state.family?.members.contains(where: { $0.process == process }) ?? false else { return }
            state.family?.members.removeAll { $0.process == process }
            state.unrest()
            state.publishMembers()
        }
    }

    /// Makes a clock that shows the time of the process whose `familyAddress` this is.
    ///
    /// - Throws: ENOENT, EACCES or ECONNREFUSED if there is no such process.
    package convenience init(joining address: String) throws(SystemError) {
        let parts = address.split(separator: ":", maxSplits: 2).map(String.init)
        guard parts.count == 3, let process = Int32(parts[0]), let descriptor = Int32(parts[1]) else {
            throw SystemError("join", address, errno: 22)
        }
        guard let memory = linux_join_family(process, descriptor) else { throw SystemError("join", address) }
        let connection = try Descriptor(linux_connect_family(parts[2]), "connect", address)
        self.init(knowsOwnDescriptors: true)
        state.withLock { state in
            state.chance = 0
            state.page = Page(memory)
            state.guardian = Guardian(connection: connection)
            state.sync()
            state.wallClockHasChanged = false
        }
    }
}

// MARK: The guardian

extension SimulatedClock.State {
    /// Nanoseconds for which time stands still while a member works, or has not connected. After that, the member is
    /// treated like a program that does not share the clock.
    private static let workLimit: Int64 = 1_000_000_000
    private static let startLimit: Int64 = 5_000_000_000
    /// Nanoseconds for which a member that works has the turn alone.
    private static let turnLimit: Int64 = 50_000_000

    /// A descriptor to watch besides the loop's own descriptors: messages of the family arrive there. -1 if there is no
    /// family.
    var company: Int32 { family?.ears.number ?? guardian?.connection.number ?? -1 }

    func publish() {
        guard let family else { return }
        var shared = linux_shared_time(
            time: time, unseen: unseen, flows_since: flowsSince ?? -1, grain: grain, wall_clock: wallClock)
        linux_set_shared_time(family.page.memory, &shared)
    }

    func publishMembers() {
        guard let family else { return }
        let processes = family.members.isEmpty ? [] : [linux_process_number()] + family.members.map(\.process)
        linux_set_family(family.page.memory, processes, Int32(processes.count))
    }

    /// The first date for which a resting member waits.
    var nextOfMembers: Int64 {
        family?.members.reduce(Int64.max) { $1.rests ? min($0, $1.deadline) : $0 } ?? .max
    }

    /// Notes that some member works, which makes earlier answers about the whole family invalid.
    mutating func unrest() {
        guard family != nil else { return }
        family?.isAtRest = false
        family?.isAsking = false
    }

    /// Whether a member works and has the turn.
    var memberWorks: Bool {
        guard let members = family?.members, !members.isEmpty else { return false }
        let now = linux_monotonic_now()
        return members.contains {
            !$0.rests && !$0.isBlocked && $0.connection != nil && now - $0.since < Self.turnLimit
        }
    }

    /// Takes connections and messages of members.
    mutating func hearMembers() {
        guard var family, linux_poll_now(family.ears.number, Int16(POLLIN)) != 0 else { return }
        var isOther = false
        var process: Int32 = 0
        while case let number = linux_accept_family(family.listener.number, &process), number >= 0 {
            isOther = true
            let connection = Descriptor(number)
            guard linux_add_ear(family.ears.number, number) == 0 else { continue }
            if let place = family.members.firstIndex(where: { $0.process == process && $0.connection == nil }) {
                family.members[place].connection = connection
                family.members[place].since = linux_monotonic_now()
            } else {
                family.members.append(.init(process: process, connection: connection))
            }
        }
        var gone: [Int32] = []
        for place in family.members.indices {
            guard let connection = family.members[place].connection else { continue }
            var word = linux_family_word()
            var result = linux_receive_family(connection.number, &word)
            while result > 0 {
                if word.kind == LINUX_RESTS {
                    family.members[place].rests = true
                    family.members[place].deadline = word.deadline
                    family.members[place].isOutstanding = word.is_outstanding != 0
                    family.members[place].surroundings = word.surroundings
                    if word.round != 0 { family.members[place].answered = word.round }
                } else {
                    family.members[place].rests = false
                    family.members[place].since = linux_monotonic_now()
                    family.isAtRest = false
                }
                family.members[place].activity = word.activity
                result = linux_receive_family(connection.number, &word)
            }
            if result < 0 { gone.append(family.members[place].process) }
        }
        family.members.removeAll { gone.contains($0.process) && $0.connection != nil }
        self.family = family
        if isOther || !gone.isEmpty {
            unrest()
            publishMembers()
        }
    }

    /// Returns whether time must not pass because a member works, or has not yet answered that it is at rest.
    mutating func membersAreBusy() -> Bool {
        guard var family, !family.members.isEmpty else { return false }
        defer { self.family = family }
        let now = linux_monotonic_now()
        for place in family.members.indices {
            let member = family.members[place]
            family.members[place].isBlocked =
                !member.rests && member.connection != nil && linux_process_rests(member.process) != 0
        }
        let waits = family.members.contains { member in
            let limit = member.connection == nil ? Self.startLimit : Self.workLimit
            return !member.rests && !member.isBlocked && now - member.since < limit
        }
        if waits { return true }
        if family.isAtRest { return false }
        let able = family.members.indices.filter { family.members[$0].rests }
        if family.isAsking {
            let late = able.filter { family.members[$0].answered != family.round }
            // A member that did not answer in time counts as one that works and cannot report it.
            for place in late where now - family.members[place].since > Self.workLimit {
                family.members[place].rests = false
                family.members[place].since = now - Self.workLimit
            }
            if !late.isEmpty { return true }
            if able.allSatisfy({ family.members[$0].activityBefore == family.members[$0].activity }) {
                family.isAtRest = true
                family.isAsking = false
                return false
            }
        }
        // Ask twice: after the first answer of a member, another member may send something to it before answering. The
        // second answer shows this.
        family.round = family.round == .max ? 1 : family.round + 1
        for place in able {
            family.members[place].activityBefore = family.isAsking ? family.members[place].activity : -1
            family.members[place].since = now
            Self.tell(family.members[place], LINUX_ASKED, family.round)
        }
        family.isAsking = true
        return true
    }

    private static func tell(_ member: SimulatedClock.Member, _ kind: linux_family_kind, _ round: Int32 = 0) {
        guard let connection = member.connection else { return }
        var word = linux_family_word()
        word.kind = kind
        word.round = round
        _ = linux_send_family(connection.number, &word)
    }

    /// The indices of resting members whose date has come.
    func lateMembers(at now: Int64) -> [Int] {
        family?.members.indices.filter { place in
            family.map { $0.members[place].rests && $0.members[place].deadline <= now } ?? false
        } ?? []
    }

    /// Makes a member read the clock again.
    mutating func wake(member place: Int) {
        guard let member = family?.members[place] else { return }
        family?.members[place].rests = false
        family?.members[place].since = linux_monotonic_now()
        unrest()
        Self.tell(member, LINUX_GOES)
    }
}

// MARK: A member

extension SimulatedClock.State {
    /// Reads the time from the shared page.
    mutating func sync() {
        guard guardian != nil, let page else { return }
        var shared = linux_shared_time()
        linux_get_shared_time(page.memory, &shared)
        time = shared.time
        unseen = shared.unseen
        flowsSince = shared.flows_since < 0 ? nil : shared.flows_since
        grain = shared.grain
        if wallClock != shared.wall_clock {
            wallClock = shared.wall_clock
            wallClockHasChanged = true
        }
    }

    /// Takes messages of the guardian. If the guardian has ended, the clock follows real time from now on.
    mutating func hearGuardian() {
        guard let connection = guardian?.connection else { return }
        var word = linux_family_word()
        var result = linux_receive_family(connection.number, &word)
        while result > 0 {
            if word.kind == LINUX_ASKED { guardian?.asked = word.round }
            // The guardian assumes that this member works.
            if word.kind == LINUX_GOES { guardian?.said = nil }
            result = linux_receive_family(connection.number, &word)
        }
        guard result < 0 else { return }
        sync()
        guardian = nil
        followsRealTime = true
        if flowsSince == nil { flowsSince = linux_monotonic_now() }
    }

    /// Takes the callbacks to call if the wall clock was set.
    mutating func takeWatchersToTell() -> [@Sendable () -> Void] {
        guard wallClockHasChanged else { return [] }
        wallClockHasChanged = false
        return wallClockWatchers
    }

    /// Reports that this member works, if its last report was that it rests.
    mutating func tellOfWork() {
        guard let guardian, guardian.said != nil else { return }
        self.guardian?.said = nil
        self.guardian?.activity += 1
        var word = linux_family_word()
        word.kind = LINUX_WORKS
        word.activity = guardian.activity + 1
        _ = linux_send_family(guardian.connection.number, &word)
    }

    /// Reports that only time or other processes can make something happen here. Returns the nanoseconds for which to
    /// sleep; -1 for no limit.
    mutating func tellOfRest(_ isOutstanding: Bool, _ surroundings: Int) -> Int64 {
        guard let guardian else { return 1_000_000 }
        let next = next
        let now = (deadline: next, isOutstanding: isOutstanding, surroundings: Int32(clamping: surroundings))
        if guardian.asked != 0 || guardian.said.map({ $0 != now }) ?? true {
            var word = linux_family_word()
            word.kind = LINUX_RESTS
            word.round = guardian.asked
            word.deadline = next
            word.activity = guardian.activity
            word.is_outstanding = isOutstanding ? 1 : 0
            word.surroundings = now.surroundings
            guard linux_send_family(guardian.connection.number, &word) == 1 else { return 1_000_000 }
            self.guardian?.asked = 0
            self.guardian?.said = now
        }
        return isOutstanding ? 2_000_000 : -1
    }
}
