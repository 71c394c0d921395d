import CStreams
import Glibc
import RunLoops
import Testing

@testable import Streams

/// Linux, in which calls are interrupted, do a part, or fail, as a seed says.
final class FaultySystem: SystemCalls {
    private var random: Seeded
    /// One in so many calls fails for good; 0: none.
    private let failures: Int
    private(set) var open: Set<Int32> = []
    private(set) var failed: [Int32] = []

    init(seed: UInt64, failures: Int) {
        random = Seeded(state: seed)
        self.failures = failures
        super.init()
    }

    override var partsAreAll: Bool { false }

    private func fault(_ errors: [Int32]) -> Int32? {
        if Int.random(in: 0..<8, using: &random) == 0 { return EINTR }
        guard failures > 0, Int.random(in: 0..<failures, using: &random) == 0,
            let error = errors.randomElement(using: &random)
        else { return nil }
        failed.append(error)
        return error
    }

    private func part(_ count: Int) -> Int { Int.random(in: 1...max(1, count), using: &random) }

    override func socket(_ family: Int32, _ type: Int32) -> Int32 {
        if let error = fault([EMFILE, ENFILE, ENOBUFS, ENOMEM]), error != EINTR { return -error }
        let fd = super.socket(family, type)
        if fd >= 0 { open.insert(fd) }
        return fd
    }

    override func connect(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 {
        if let error = fault([ECONNREFUSED, ENETUNREACH, ETIMEDOUT, EADDRNOTAVAIL]), error != EINTR { return -error }
        return super.connect(fd, address)
    }

    override func accept(_ fd: Int32, _ peer: UnsafeMutablePointer<net_address>) -> Int32 {
        if let error = fault([EMFILE, ECONNABORTED, ENOBUFS, EPROTO]) { return -error }
        let new = super.accept(fd, peer)
        if new >= 0 { open.insert(new) }
        return new
    }

    override func close(_ fd: Int32) -> Int32 {
        open.remove(fd)
        return super.close(fd)
    }

    override func receive(_ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int) -> Int {
        if let error = fault([ECONNRESET, ETIMEDOUT, ENOMEM]) { return -Int(error) }
        return super.receive(fd, bytes, part(count))
    }

    override func send(_ fd: Int32, _ pieces: UnsafePointer<iovec>, _ count: Int32) -> Int {
        if let error = fault([EPIPE, ECONNRESET, ENOBUFS, ENOMEM]) { return -Int(error) }
        var piece = pieces[0]
        piece.iov_len = part(piece.iov_len)
        return super.send(fd, &piece, 1)
    }
}

@Suite("Streams: when system calls fail", .serialized)
struct FaultTests {
    /// A server that sends back what it gets, and clients that send and compare. Returns what came of each client.
    private func exchange(_ system: FaultySystem) -> [String] {
        let world = World(system, waitsForDescriptors: true)
        let place = Place.abstract(Array("rlhost-fault-\(getpid())-\(UInt64.random(in: 0 ... .max))".utf8))
        var listener: Listener?
        // Making one may fail, too.
        for _ in 0..<50 where listener == nil { listener = try? Listener(world.network, at: place) }
        guard let listener else { return ["no listener"] }
        listener.onConnection = { stream in
            stream.deliver { stream, outcome in
                if case .bytes(let bytes) = outcome { stream.write(Array(bytes)) } else { stream.close() }
            }
        }
        world.loop.add(listener)
        var results: [String] = []
        let text = Array((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        for _ in 0..<8 {
            var options = Stream.ConnectOptions()
            options.timeout = .seconds(20)
            world.network.connect(to: place, options) { outcome in
                switch outcome {
                case .failure(let failure): results.append(failure.code)
                case .success(let stream):
                    stream.write(text)
                    stream.finish()
                    stream.read(.all, limit: 1 << 20, timeout: .seconds(20)) { outcome in
                        if case .bytes(let bytes) = outcome {
                            results.append(bytes.elementsEqual(text) ? "whole" : "a part")
                        } else {
                            results.append(outcome.text)
                        }
                        stream.close()
                    }
                }
            }
        }
        let deadline = world.loop.now + .seconds(60)
        while results.count < 8, world.loop.now < deadline { world.loop.run(in: .default, for: .milliseconds(100)) }
        listener.close()
        for item in world.loop.allItems { (item as? Streams.Stream)?.close() }
        world.loop.run(in: .default, for: .milliseconds(300))
        for item in world.loop.allItems { (item as? Streams.Stream)?.closeAtOnce() }
        return results
    }

    @Test("interruptions and parts change nothing", arguments: 1...10 as ClosedRange<UInt64>)
    func parts(seed: UInt64) {
        let system = FaultySystem(seed: seed, failures: 0)
        #expect(exchange(system) == [String](repeating: "whole", count: 8))
        #expect(system.open.isEmpty)
    }

    @Test("failures are told, and leave no descriptor", arguments: 1...30 as ClosedRange<UInt64>)
    func failures(seed: UInt64) {
        let system = FaultySystem(seed: seed, failures: 60)
        let results = exchange(system)
        #expect(results.count == 8 || results == ["no listener"], "\(results) after \(system.failed)")
        // A reset may cut what the peer has sent: that is an end for whoever reads, but never a lie about bytes.
        for result in results where result == "a part" {
            #expect(!system.failed.isEmpty, "bytes were lost without a failure")
        }
        #expect(system.open.isEmpty, "\(system.open) are left open")
    }
}
