internal import CStreams
internal import Glibc
public import RunLoops

/// What the streams of one loop share. Used on the loop's thread; it is to outlive its streams.
public final class Network {
    public let loop: RunLoop
    public let system: SystemCalls
    /// Whom streams tell, unless they are made with an owner of their own.
    public let owner: StreamOwner

    /// Where bytes arrive. What a stream leaves there it moves into a buffer of its own, before anybody else runs.
    let scratch = UnsafeMutableRawPointer.allocate(byteCount: Network.scratchSize, alignment: 16)
    static let scratchSize = 65536

    /// Those with something to send when the turn ends.
    private var dirty: [Stream] = []
    /// Those that nobody can reach any more.
    private var abandoned: [RunLoop.EdgePort] = []
    /// Those that are closed, and wait for the peer to be so, too, or for the time to be over.
    private(set) var draining: [Stream] = []
    private var drainTimer: RunLoop.Timer?
    /// Held so that a connection can be taken, and closed, when there are no more descriptors.
    var reserve: Int32 = -1
    /// Asked for names.
    public let resolver: Resolver
    /// Tells of what threads did with files.
    let files: Mailbox

    /// - Parameter system: another one only for tests.
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

    deinit {
        scratch.deallocate()
        if reserve >= 0 { net_close(reserve) }
    }

    /// Sends what was written in this turn. Calls nobody back: who waits has a turn of its own.
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

    /// Sends at once what is left to be sent, as far as the kernel takes it: for the end of the process.
    ///
    /// - Parameter waits: for the standard output and error until all of it is written.
    public func flush(waits: Bool = false) {
        endTurn()
        guard waits else { return }
        for reference in standard { reference.stream?.settle() }
    }

    /// Those that write to the standard output or the standard error.
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

    /// Closes a stream or a listener soon, that nobody can reach any more. Safe in the middle of anything on the loop's thread.
    public func abandon(_ item: RunLoop.EdgePort) {
        abandoned.append(item)
        loop.wantsTurnEnd = true
    }

    /// Two streams that are connected to each other, in the kernel, in no mode yet.
    ///
    /// - Throws: EMFILE and the like.
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

    // MARK: Closed streams whose peers are not

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

    /// Closes at once those that are closed, but not yet gone.
    public func closeAllDraining() {
        for stream in draining { stream.timeToClose(isFinal: true) }
        drainTimer?.invalidate()
        drainTimer = nil
    }

    /// The timer stays when the last of them has gone, as most do at once: with many short connections the next follows soon.
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
