internal import CStreams
internal import Glibc
public import RunLoops

/// State that the streams of one loop share. Use it on the loop's thread, and keep it longer than its streams.
public final class Network {
    public let loop: RunLoop
    public let system: SystemCalls
    /// The owner of streams that are made without one.
    public let owner: StreamOwner

    /// Memory for received bytes. If a stream does not deliver them, it moves them into its own buffer before any other
    /// code runs.
    let scratch = UnsafeMutableRawPointer.allocate(byteCount: Network.scratchSize, alignment: 16)
    static let scratchSize = 65536

    /// Streams with something to send when the turn ends.
    private var dirty: [Stream] = []
    /// A large block of memory that a stream's output no longer needs. The block is kept because more output usually
    /// follows: malloc would return it to the system, and each page of a new block costs a fault.
    private var spare = ByteQueue()
    private var spareDate = Int64.min
    /// Whether the loop calls `freeSpare` before it sleeps: true once a first block was kept.
    private var hasSpare = false
    /// Items that nothing refers to any more.
    private var abandoned: [RunLoop.EdgePort] = []
    /// Streams that are closed and wait for the peer to close as well, or for their time limit.
    private(set) var draining: [Stream] = []
    private var drainTimer: RunLoop.Timer?
    /// A spare descriptor: when descriptors have run out, it is given up so that one connection can be accepted and
    /// closed.
    var reserve: Int32 = -1
    /// The number, from 1, of the delimiter that the latest `Unit.untilOneOf` has found. The remaining bits are for the
    /// owner's use.
    public var which = 0
    /// For the owner: the descriptions of units that it has used last.
    public var lastEnding = Stream.Ending(count: 0)
    public var lastEnds = Stream.Ends([])
    /// Resolves names.
    public let resolver: Resolver
    /// Brings results from the threads that work on files.
    let files: Mailbox

    /// - Parameter system: replaced in tests only.
    public init(loop: RunLoop, system: SystemCalls = SystemCalls(), owner: StreamOwner = StreamOwner()) {
        self.loop = loop
        self.system = system
        self.owner = owner
        resolver = Resolver(loop)
        files = Mailbox(loop)
        let before = loop.turnEndHandler
        loop.turnEndHandler = { [weak self] in
            before?()
            self?.endTurn()
        }
    }

    /// Makes the loop call `freeSpare` before it sleeps.
    private func watchSpare() {
        hasSpare = true
        let rest = loop.restHandler
        loop.restHandler = { [weak self] loop in
            let pause = rest?(loop) ?? .max
            return pause == 0 ? 0 : min(pause, self?.freeSpare() ?? .max)
        }
    }

    deinit {
        spare.free()
        scratch.deallocate()
        if reserve >= 0 { net_close(reserve) }
    }

    /// Sends the bytes that were written in this turn. It calls no callback: each waiter is called in a turn of its
    /// own.
    func endTurn() {
        while !dirty.isEmpty {
            let streams = dirty
            dirty = []
            for stream in streams { stream.endTurn() }
        }
        guard !abandoned.isEmpty else { return }
        let left = abandoned
        abandoned = []
        for item in left {
            (item as? Stream)?.close()
            (item as? Listener)?.close()
            (item as? Datagram)?.close()
        }
        endTurn()
    }

    /// Closes a listener, a datagram socket, or a stream without waiting for the stream's peer. Ignores other items.
    public static func closeAtOnce(_ item: RunLoop.Item) {
        (item as? Stream)?.closeAtOnce()
        (item as? Listener)?.close()
        (item as? Datagram)?.close()
    }

    /// Closes the items that nothing refers to any more. Called when the loop has had its last turn.
    public func closeAbandoned() {
        for item in abandoned { Self.closeAtOnce(item) }
        abandoned = []
        closeAllDraining()
    }

    /// Called at the end of the process: sends at once as much of the remaining output as the kernel accepts.
    ///
    /// - Parameter waits: waits until the standard output and error have been written.
    public func flush(waits: Bool = false) {
        endTurn()
        guard waits else { return }
        for reference in standard { reference.stream?.settle() }
    }

    /// Frees the memory of an empty queue, or keeps it for the next queue.
    func release(_ queue: inout ByteQueue) {
        queue.freeIfEmpty(leaving: &spare)
        guard !spare.isFreed else { return }
        spareDate = .max
        if !hasSpare { watchSpare() }
    }

    func prepare(_ queue: inout ByteQueue, _ more: Int) { queue.prepare(more, from: &spare) }

    /// Frees the spare block when it was not needed for a second. Returns the nanoseconds until the block may be freed.
    private func freeSpare() -> Int64 {
        guard !spare.isFreed else { return .max }
        let now = loop.now.nanoseconds
        if spareDate == .max { spareDate = now + 1_000_000_000 }
        if now < spareDate { return spareDate - now }
        spare.free()
        return .max
    }

    /// Streams that write to the standard output or the standard error.
    private var standard: [Reference] = []
    private struct Reference { weak var stream: Stream? }

    func writesStandard(_ stream: Stream) {
        standard.removeAll { $0.stream == nil }
        standard.append(Reference(stream: stream))
    }

    func isDirty(_ stream: Stream) {
        dirty.append(stream)
        loop.wantsTurnEnd = true
    }

    /// Soon closes a stream or listener that nothing refers to any more. Safe at any point on the loop's thread.
    public func abandon(_ item: RunLoop.EdgePort) {
        abandoned.append(item)
        loop.wantsTurnEnd = true
    }

    /// Returns two streams in no mode that are connected to each other in the kernel.
    ///
    /// - Throws: EMFILE and similar errors of the system.
    public func pair(owner: StreamOwner? = nil) throws(StreamFailure) -> (Stream, Stream) {
        var ends: [Int32] = [-1, -1]
        let failure = net_pair(&ends)
        guard failure == 0 else { throw StreamFailure(errno: -failure, "a pair of sockets") }
        let first = Stream(self, owner: owner)
        let second = Stream(self, owner: owner)
        first.attach(ends[0], .socket)
        second.attach(ends[1], .socket)
        return (first, second)
    }

    // MARK: Closed streams that wait for their peers

    func drain(_ stream: Stream) {
        stream.drainPlace = draining.count
        draining.append(stream)
        scheduleDraining(stream.drainsUntil)
    }

    func stopDraining(_ stream: Stream) {
        let place = stream.drainPlace
        guard place >= 0 else { return }
        stream.drainPlace = -1
        let last = draining.removeLast()
        guard last !== stream else { return }
        draining[place] = last
        last.drainPlace = place
    }

    /// Closes all streams that drain at once.
    public func closeAllDraining() {
        for stream in draining { stream.timeToClose(isFinal: true) }
        drainTimer?.invalidate()
        drainTimer = nil
    }

    /// The timer is kept when the last stream has left: most streams leave at once, and with many short connections
    /// another one follows soon.
    private func scheduleDraining(_ first: RunLoop.Instant) {
        if let drainTimer, drainTimer.fireDate <= first { return }
        drainTimer?.invalidate()
        let timer = RunLoop.Timer(fireDate: first) { [weak self] _, _ in
            guard let self else { return }
            drainTimer = nil
            let now = loop.now
            for stream in draining where stream.drainsUntil <= now { stream.timeToClose() }
            if let first = draining.map(\.drainsUntil).min() { scheduleDraining(first) }
        }
        timer.keepsAlive = false
        drainTimer = timer
        loop.add(timer, to: .common)
    }
}
