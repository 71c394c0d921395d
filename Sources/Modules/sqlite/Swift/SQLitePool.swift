internal import CSQLite
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The connections of one kind, and the tasks that wait for their answers. The loop hands the jobs of a pass over
/// together, and takes all answers at once that have come meanwhile.
final class SQLitePool {
    /// The part that threads use, which may outlive the pool.
    private final class Bell: @unchecked Sendable {
        // Sendable: `pool` is used on the loop's thread only; the rest is constant or guarded by a lock. Not weak: that
        // makes each call that counts a reference to the pool slower.
        unowned(unsafe) var pool: SQLitePool?
        let handle: RunLoop.Handle
        /// The loop's thread. It calls `ring` for jobs that it refuses itself.
        private let thread = pthread_self()
        let lanes = Lock<[[RunLoop.Mode]]>([[.common]])

        init(_ handle: RunLoop.Handle) { self.handle = handle }

        static func of(_ context: UnsafeMutableRawPointer) -> Bell {
            Unmanaged<Bell>.fromOpaque(context).takeUnretainedValue()
        }

        func ring(_ lane: Int) {
            if pthread_equal(thread, pthread_self()) == 0 { WorkPool.awaitTurn?() }
            handle.perform(in: lanes.withLock { $0[lane] }) { [self] _ in pool?.deliver() }
        }

        func start(_ connection: OpaquePointer) -> Bool {
            let work = Work(connection: connection)
            let thread = try? Thread("sqlite", stackSize: 512 << 10) { [self] in
                withExtendedLifetime(self) { csqlite_work(work.connection) }
            }
            return thread != nil
        }
    }

    // Sendable: a connection belongs to its thread.
    private struct Work: @unchecked Sendable { let connection: OpaquePointer }

    /// The calls that wait in the same modes, and keep the loop alive there.
    private struct Lane {
        /// A mode in which they can end besides the common ones.
        let mode: RunLoop.Mode?
        let isBackground: Bool
        var count = 0
        var source: RunLoop.Source?
    }

    /// Requests of the loop, and the timer for calls that wait for a connection.
    private final class Requests: RunLoop.RequestOwner {
        unowned(unsafe) var pool: SQLitePool?
        override func perform(_ context: Int) {
            switch context {
            case 0: pool?.handOver()
            case 1:
                pool?.expires = nil
                pool?.expire()
            default:
                pool?.delivers = nil
                pool?.deliver()
            }
        }
    }

    private final class Limit: RunLoop.TimerOwner {
        unowned(unsafe) var pool: SQLitePool?
        override func fire(_ node: UnsafeMutablePointer<RunLoop.TimerNode>, missed: Int) {
            node.invalidate()
            guard let pool, pool.expires == nil else { return }
            pool.expires = pool.host.loop.perform(pool.requests, 1)
        }
    }

    /// Marks the items of a pool as the host's own.
    final class Part: HostPart {
        override func show(_ item: RunLoop.Item, in entry: inout InspectBinding.Entry) {
            guard let pool = (item.owner as? Owner)?.pool else { return }
            entry.isHosts = true
            entry.detail = pool.waitTexts.joined(separator: "; ")
        }
        override func show(_ timer: UnsafeMutablePointer<RunLoop.TimerNode>, in entry: inout InspectBinding.Entry) {
            if timer.pointee.context == SQLitePool.mark { entry.isHosts = true }
        }
    }

    /// The owner of a lane's source.
    private final class Owner: RunLoop.ItemOwner {
        unowned(unsafe) var pool: SQLitePool?
    }

    /// Lanes have a bit each. A call in a mode that has no lane ends in the common modes.
    private static let mostLanes = 30
    /// Seconds to wait for the end of a cancelled statement before its connection is given up.
    private static let patience = 2
    /// Answers that are handed out in one callback.
    private static let mostAtOnce = 64
    private static let mostShown = 10
    private static let mark = 0x5351_4c69

    let native: OpaquePointer
    /// Calls that may wait for a connection.
    private let mostWaiting: Int
    // As in HostPart: the host owns the state, which owns this object.
    fileprivate unowned(unsafe) let host: LuaHost
    private let bell: Bell
    private let owner = Owner()
    private let requests = Requests()
    private let limit = Limit()
    private let timer = UnsafeMutablePointer<RunLoop.TimerNode>.allocate(capacity: 1)
    private var lanes = [Lane(mode: nil, isBackground: false)]
    private var waiting = 0
    private var isNoted = false
    /// The queued requests. The loop does not retain their owner, so that a pool cancels them when it ends.
    private var handsOver, expires, delivers: RunLoop.RequestToken?
    /// Jobs that are done, but whose tasks wait in a mode that does not run.
    private var held: [OpaquePointer] = []

    init?(_ host: LuaHost, size: Int32, opening: UnsafeRawBufferPointer, mostWaiting: Int) {
        let bell = Bell(host.loop.handle)
        let callbacks = csqlite_host(
            ring: { context, lane in if let context { Bell.of(context).ring(Int(lane)) } },
            start: { context, connection in
                guard let context, let connection else { return 0 }
                return Bell.of(context).start(connection) ? 1 : 0
            }, context: Unmanaged.passUnretained(bell).toOpaque())
        let bytes = opening.bindMemory(to: CChar.self)
        guard let native = csqlite_pool_make(size, bytes.baseAddress, bytes.count, callbacks) else { return nil }
        self.native = native
        self.mostWaiting = mostWaiting
        self.host = host
        self.bell = bell
        timer.initialize(to: .init(fireDate: 0, owner: limit))
        timer.invalidate()
        bell.pool = self
        owner.pool = self
        requests.pool = self
        limit.pool = self
        _ = host.part(Part.self)
    }

    deinit {
        bell.pool = nil
        owner.pool = nil
        requests.pool = nil
        limit.pool = nil
        for request in [handsOver, expires, delivers] { if let request { host.loop.cancel(request) } }
        timer.invalidate()
        timer.deallocate()
        if isNoted { WorkPool.noteAwaited(-1) }
        for job in held { csqlite_job_free(job) }
        csqlite_pool_leave(native)
    }

    // MARK: Calls

    private var now: Int64 { host.loop.now.nanoseconds / 1_000_000 }

    /// Makes the task wait until a job is done. `seconds`: how long the job may wait for a connection. `label`: the
    /// call's label in recordings; 0 for none.
    func run(
        _ call: Call, _ name: StaticString, _ job: OpaquePointer, _ connection: Int, _ seconds: Double, label: UInt32
    ) -> Int32 {
        if connection == 0, waiting >= mostWaiting, csqlite_pool_numbers(native).waiting >= mostWaiting {
            csqlite_job_free(job)
            let reason = "\(mostWaiting) calls wait for a connection already"
            return call.fail(SystemError("sqlite", errno: ENOBUFS, reason: reason))
        }
        return begin(call, name, job) { fiber, lane in
            let record = label != 0 ? host.loop.noteBeginning(label) : 0
            if record != 0 { csqlite_job_set_record(job, UInt64(label) << 32 | UInt64(record)) }
            let limit = connection == 0 && seconds < 1e9 ? now + Int64(max(0, seconds) * 1000) : .max
            csqlite_pool_add(native, job, Int64(connection), fiber.context, fiber.thread, Int32(lane), limit)
            if limit < .max, !timer.pointee.isValid || timer.pointee.fireDate > limit * 1_000_000 { arm(limit) }
            handOverSoon()
        }
    }

    /// Makes the task wait until all connections are closed that no task has taken.
    func close(_ call: Call, _ job: OpaquePointer) -> Int32 {
        handOver()
        return begin(call, "db:close", job) { fiber, lane in
            csqlite_pool_close(native, job, fiber.context, Int32(lane))
            note()
        }
    }

    private func begin(
        _ call: Call, _ name: StaticString, _ job: OpaquePointer, _ start: (Fiber, Int) -> Void
    ) -> Int32 {
        let index = lane(host.loop.runsInCommonMode ? nil : host.loop.currentMode, host.current?.isBackground ?? false)
        switch call.beginWait(in: name, cancel: { [unowned(unsafe) self] _ in abandon(job, index) }) {
        case .refused(let answer):
            csqlite_job_free(job)
            return answer
        case .begun(let fiber):
            enter(index)
            start(fiber, index)
            return call.yield()
        }
    }

    /// Carries a job out for which nobody waits.
    func send(_ job: OpaquePointer, _ connection: Int) {
        csqlite_pool_add(native, job, Int64(connection), 0, nil, 0, .max)
        handOver()
    }

    func give(_ connection: Int) {
        csqlite_pool_give(native, Int64(connection))
        note()
    }

    func drop(_ connection: Int) {
        csqlite_pool_drop(native, Int64(connection))
        note()
    }

    /// Returns the name of the call in which a coroutine waits, the text of its statement, and the seconds.
    func text(_ call: Call) -> Int32 {
        var length = 0
        var task = 0
        guard let text = csqlite_pool_text(native, csqlite_coroutine(call.thread, 2), &task, &length),
            let fiber = Fiber(context: task)
        else { return 0 }
        var program = ValueProgram()
        program.table { program in
            program.element { $0.append("\(fiber.waitsIn)") }
            program.element { $0.append(bytes: Array(UnsafeRawBufferPointer(start: text, count: length))) }
            program.element { $0.append(Time.seconds(host.loop.now.nanoseconds - fiber.waitsSince)) }
        }
        return call.answer(program)
    }

    /// The calls in which the first tasks wait, with their places.
    private var waitTexts: [String] {
        withUnsafeTemporaryAllocation(of: Int.self, capacity: Self.mostShown) { tasks in
            let count = Int(csqlite_pool_tasks(native, tasks.baseAddress, Int32(Self.mostShown)))
            return tasks.prefix(count).compactMap { Fiber(context: $0) }.map { host.placeOfWait($0) }
                + (waiting > count ? ["\(waiting - count) more"] : [])
        }
    }

    // MARK: Lanes

    private func lane(_ mode: RunLoop.Mode?, _ isBackground: Bool) -> Int {
        if mode == nil, !isBackground { return 0 }
        if let known = lanes.firstIndex(where: { $0.mode == mode && $0.isBackground == isBackground }) { return known }
        guard lanes.count < Self.mostLanes else { return 0 }
        lanes.append(Lane(mode: mode, isBackground: isBackground))
        bell.lanes.withLock { $0.append(modes(lanes[lanes.count - 1])) }
        return lanes.count - 1
    }

    private func modes(_ lane: Lane) -> [RunLoop.Mode] { lane.mode.map { [.common, $0] } ?? [.common] }

    private func enter(_ index: Int) {
        waiting += 1
        lanes[index].count += 1
        guard lanes[index].count == 1 else { return }
        let source = RunLoop.Source(name: "calls of runloop.sqlite", owner: owner)
        source.keepsAlive = !lanes[index].isBackground
        source.mayAnswer = lanes[index].isBackground
        lanes[index].source = source
        for mode in modes(lanes[index]) { host.loop.add(source, to: mode) }
    }

    private func leave(_ index: Int) {
        waiting -= 1
        lanes[index].count -= 1
        if waiting == 0 { timer.invalidate() }
        guard lanes[index].count == 0 else { return }
        lanes[index].source?.invalidate()
        lanes[index].source = nil
    }

    private var waitingModes: [RunLoop.Mode] { [.common] + lanes.compactMap(\.mode) }

    private func isServed(_ index: Int) -> Bool {
        host.loop.runsInCommonMode || lanes[index].mode != nil && lanes[index].mode == host.loop.currentMode
    }

    /// Notes whether threads work at something that a task waits for: a simulated clock must not jump meanwhile.
    private func note() {
        let isBusy = waiting > 0 && csqlite_pool_numbers(native).is_busy != 0
        guard isBusy != isNoted else { return }
        isNoted = isBusy
        WorkPool.noteAwaited(isBusy ? 1 : -1)
    }

    // MARK: Jobs

    private func handOverSoon() {
        if !host.loop.runsInCommonMode { return handOver() }
        if handsOver == nil { handsOver = host.loop.perform(requests, 0) }
    }

    private func handOver() {
        handsOver = nil
        csqlite_pool_hand_over(native)
        note()
    }

    /// Called on the loop's thread when jobs are done.
    private func deliver() {
        guard !host.isClosed else { return }
        var list = held
        held = []
        var next = csqlite_pool_take(native)
        while let job = next {
            list.append(job)
            next = csqlite_job_next(job)
        }
        // A callback should be short: the rest is delivered in the next pass.
        held = Array(list.dropFirst(Self.mostAtOnce))
        if !held.isEmpty {
            if let delivers { host.loop.cancel(delivers) }
            delivers = host.loop.perform(requests, 2, in: waitingModes)
        }
        for job in list.prefix(Self.mostAtOnce) { deliver(job) }
        note()
        // The tasks that were resumed above may have made jobs. The request that hands jobs over would run only in the
        // next pass, so hand them over now.
        guard let handsOver else { return }
        host.loop.cancel(handsOver)
        handOver()
    }

    private func deliver(_ job: OpaquePointer) {
        guard let fiber = Fiber(context: csqlite_job_task(job)), fiber.stack.reserve(4) else {
            // No task waits for the job any more: give back the connection that it has taken.
            let taken = csqlite_job_taken(job)
            if taken != 0 { give(Int(taken)) }
            return csqlite_job_free(job)
        }
        let index = Int(csqlite_job_lane(job))
        guard isServed(index) else { return held.append(job) }
        leave(index)
        if csqlite_job_record(job) != 0 { endRecord(of: job, csqlite_job_outcome(job)) }
        csqlite_lend(fiber.thread, job, Int32(LENT_REPLY))
        host.resume(fiber, arguments: 1)
        csqlite_take_back(job)
        csqlite_job_free(job)
    }

    private func endRecord(of job: OpaquePointer, _ outcome: csqlite_outcome) {
        host.loop.noteAnswer(
            csqlite_job_record(job), rows: Int(clamping: outcome.rows), waited: outcome.waited * 1000,
            failed: outcome.has_failed != 0)
    }

    private func abandon(_ job: OpaquePointer, _ index: Int) {
        leave(index)
        if csqlite_job_record(job) != 0 { endRecord(of: job, csqlite_outcome(rows: 0, waited: 0, has_failed: 1)) }
        let number = csqlite_job_number(job)
        if csqlite_pool_abandon(native, job) == 0 {
            let date = host.loop.now + .seconds(Self.patience)
            let timer = host.loop.callBack(at: date) { [weak requests] _, _ in
                if let pool = requests?.pool { csqlite_pool_give_up(pool.native, number) }
            }
            timer.keepsAlive = false
        }
        note()
    }

    // MARK: The limit for waiting

    private func arm(_ milliseconds: Int64) {
        timer.invalidate()
        timer.initialize(to: .init(fireDate: milliseconds * 1_000_000, owner: limit, context: Self.mark))
        // The sources of lanes keep the loop alive.
        timer.setKeepsAlive(false)
        host.loop.addToCommonModes(timer)
        for lane in lanes { if let mode = lane.mode { host.loop.add(timer, to: mode) } }
    }

    private func expire() {
        handOver()
        let next = csqlite_pool_expire(native, now)
        if next > 0, next < .max { arm(next) }
        deliver()
    }
}
