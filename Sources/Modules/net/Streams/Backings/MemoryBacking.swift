internal import Glibc
internal import RunLoops

extension Network {
    /// Properties of in-memory streams.
    public struct MemoryOptions: Sendable {
        /// Time that a byte takes to arrive.
        public var latency: Duration
        /// Bytes per second; 0: unlimited.
        public var bandwidth: Double
        /// The largest number of bytes that arrive at once; 0: unlimited.
        public var chunk: Int
        /// Bytes that may be on their way or wait to be read, as in the kernel's buffers.
        public var capacity: Int

        public init(
            latency: Duration = .zero, bandwidth: Double = 0, chunk: Int = 0, capacity: Int = 262_144
        ) {
            self.latency = latency
            self.bandwidth = bandwidth
            self.chunk = chunk
            self.capacity = max(1, capacity)
        }
    }

    /// Returns two streams that are connected to each other without a kernel. The bytes travel in the loop's time,
    /// simulated or not, so that each run is the same.
    public func memoryPair(_ options: MemoryOptions = .init(), owner: StreamOwner? = nil) -> (Stream, Stream) {
        let there = MemoryPipe(options, self)
        let back = MemoryPipe(options, self)
        let streams = (Stream(self, owner: owner), Stream(self, owner: owner))
        streams.0.attach(MemoryBacking(reads: back, writes: there, streams.0))
        streams.1.attach(MemoryBacking(reads: there, writes: back, streams.1))
        return streams
    }
}

/// One direction between two in-memory streams.
final class MemoryPipe {
    private let options: Network.MemoryOptions
    private unowned let network: Network
    /// The pieces in the order of arrival; an empty piece is the end.
    private var pieces: [(date: Int64, bytes: [UInt8])] = []
    private var first = 0
    private var taken = 0
    private var count = 0
    private var lastArrival = Int64.min
    private(set) var isReset = false
    private(set) var isEnded = false
    fileprivate weak var reader: MemoryBacking?
    fileprivate weak var writer: MemoryBacking?

    init(_ options: Network.MemoryOptions, _ network: Network) {
        self.options = options
        self.network = network
    }

    private var latency: Int64 { options.latency.wholeNanoseconds }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        if isReset || reader == nil { return -Int(EPIPE) }
        let room = options.capacity - count
        guard room > 0 else { return -Int(EAGAIN) }
        let n = min(room, bytes.count)
        var rest = UnsafeRawBufferPointer(rebasing: bytes[..<n])
        while !rest.isEmpty {
            let size = options.chunk > 0 ? min(options.chunk, rest.count) : rest.count
            append(Array(rest[..<size]))
            rest = UnsafeRawBufferPointer(rebasing: rest[size...])
        }
        count += n
        reader?.expectArrival()
        return n
    }

    private func append(_ bytes: [UInt8]) {
        let now = network.loop.now.nanoseconds
        var sent = max(now, lastArrival == .min ? now : lastArrival - latency)
        if options.bandwidth > 0 { sent += Int64((Double(bytes.count) / options.bandwidth * 1e9).rounded(.up)) }
        lastArrival = sent + latency
        pieces.append((lastArrival, bytes))
    }

    func end() {
        guard !isEnded else { return }
        isEnded = true
        append([])
        reader?.expectArrival()
    }

    /// Discards the bytes on their way. The reader sees the reset when the latency is over.
    func reset() {
        guard !isReset else { return }
        isReset = true
        pieces = [(network.loop.now.nanoseconds + latency, [])]
        first = 0
        taken = 0
        reader?.expectArrival()
    }

    /// The date at which the next piece arrives; nil if none is on its way.
    var nextArrival: Int64? { first < pieces.count ? pieces[first].date : nil }

    func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int {
        let now = network.loop.now.nanoseconds
        var n = 0
        while n < room, first < pieces.count, pieces[first].date <= now {
            let bytes = pieces[first].bytes
            if bytes.isEmpty {
                if n > 0 { break }
                return isReset ? -Int(ECONNRESET) : 0
            }
            let size = min(room - n, bytes.count - taken)
            bytes.withUnsafeBytes { source in
                if let start = source.baseAddress { memcpy(place + n, start + taken, size) }
            }
            n += size
            taken += size
            if taken == bytes.count {
                taken = 0
                first += 1
            }
            if options.chunk > 0 { break }
        }
        if first == pieces.count {
            pieces.removeAll(keepingCapacity: false)
            first = 0
        } else if first > 64 {
            pieces.removeFirst(first)
            first = 0
        }
        guard n > 0 else { return isReset && pieces.isEmpty ? -Int(ECONNRESET) : -Int(EAGAIN) }
        count -= n
        writer?.hasRoom()
        return n
    }

    /// The reader has been closed: discards all bytes.
    fileprivate func dropReader() {
        reader = nil
        pieces = []
        writer?.hasRoom()
    }
}

/// One end of a pair.
final class MemoryBacking: Backing {
    private let reads: MemoryPipe
    private let writes: MemoryPipe
    private unowned(unsafe) let stream: Stream  // owns this backing
    private var timer: RunLoop.Timer?
    private var date = Int64.max
    private var isClosed = false

    init(reads: MemoryPipe, writes: MemoryPipe, _ stream: Stream) {
        self.reads = reads
        self.writes = writes
        self.stream = stream
        super.init()
        reads.reader = self
        writes.writer = self
    }

    override func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int {
        let n = reads.receive(place, room)
        if n == -Int(EAGAIN) { expectArrival() }
        return n
    }

    override func send(_ bytes: UnsafeRawBufferPointer) -> Int { writes.send(bytes) }
    override func finish() { writes.end() }

    override func close(reset: Bool) {
        guard !isClosed else { return }
        isClosed = true
        if reset { writes.reset() } else { writes.end() }
        reads.dropReader()
        timer?.invalidate()
        timer = nil
    }

    /// Bytes are on their way: signals the stream when they arrive.
    fileprivate func expectArrival() {
        guard !isClosed, let next = reads.nextArrival else { return }
        if next <= stream.network.loop.now.nanoseconds { return arrived() }
        guard next < date || timer == nil else { return }
        timer?.invalidate()
        date = next
        let loop = stream.network.loop
        timer = loop.callBack(at: .init(nanoseconds: next), in: stream.modeNames) { [unowned self] _, _ in
            timer = nil
            date = .max
            arrived()
        }
        timer?.keepsAlive = !stream.isBackground
    }

    private func arrived() { if stream.note(.read) { stream.signal() } }
    fileprivate func hasRoom() { if stream.note(.write) { stream.signal() } }

    override func entered(_ mode: RunLoop.Mode) {
        if let timer { stream.network.loop.add(timer, to: mode) } else { expectArrival() }
    }
    override func left(_ mode: RunLoop.Mode) { if let timer { stream.network.loop.remove(timer, from: mode) } }

    override var address: String? { "memory" }
    override var peer: String? { "memory" }
}
