import CStreams
import Glibc
import RunLoops
import Synchronization
import TestSupport
import Testing

@testable import Streams

/// Sockets that behave as a test configures them, by family.
final class StagedSockets: SystemCalls {
    enum Behaviour { case answers, refuses, isDead }
    let behaviour: [Int32: Behaviour]
    private(set) var open: Set<Int32> = []
    private(set) var attempts: [(family: Int32, date: Int64)] = []
    var clock: () -> Int64 = { 0 }
    private var others: [Int32] = []

    init(v4: Behaviour, v6: Behaviour) {
        behaviour = [Int32(NET_V4.rawValue): v4, Int32(NET_V6.rawValue): v6]
        super.init()
    }

    deinit { for fd in others { _ = net_close(fd) } }

    private var families: [Int32: Int32] = [:]

    override func socket(_ family: Int32, _ type: Int32) -> Int32 {
        var ends: [Int32] = [-1, -1]
        // The reading end of a pipe is never writable.
        if behaviour[family] == .isDead { _ = net_pipe(&ends) } else { _ = net_pair(&ends) }
        open.insert(ends[0])
        others.append(ends[1])
        families[ends[0]] = family
        attempts.append((family, clock()))
        return ends[0]
    }

    override func connect(_ fd: Int32, _ address: UnsafePointer<net_address>) -> Int32 {
        switch behaviour[families[fd] ?? 0] {
        case .answers: 0
        case .refuses: -ECONNREFUSED
        default: -EINPROGRESS
        }
    }

    override func close(_ fd: Int32) -> Int32 {
        open.remove(fd)
        return super.close(fd)
    }
}

@Suite("Streams: connecting side by side, in simulated time", .timed)
struct ConnectTests {
    private func connect(_ sockets: StagedSockets, timeout: Duration? = nil) -> (String, seconds: Double, World) {
        let world = World(sockets)
        sockets.clock = { [unowned loop = world.loop] in loop.now.nanoseconds }
        var result = "nothing"
        var date = 0.0
        var options = Stream.ConnectOptions()
        options.timeout = timeout
        world.network.connect(to: .host("localhost", port: 80), options) { outcome in
            date = Double(world.loop.now.nanoseconds) / 1e9
            switch outcome {
            case .success(let stream):
                result = "connected"
                stream.abort()
            case .failure(let failure): result = failure.description
            }
        }
        world.run(for: .seconds(100))
        return (result, date, world)
    }

    @Test("a dead address costs a quarter of a second, and is tried for longer")
    func dead() {
        let sockets = StagedSockets(v4: .isDead, v6: .answers)
        let (result, seconds, _) = connect(sockets)
        #expect(result == "connected")
        #expect(seconds == 0.25)
        #expect(sockets.attempts.count == 2)
        #expect(sockets.open.isEmpty)
    }

    @Test("an address that refuses costs no time")
    func refusing() {
        let sockets = StagedSockets(v4: .refuses, v6: .answers)
        let (result, seconds, _) = connect(sockets)
        #expect(result == "connected")
        #expect(seconds == 0)
        #expect(sockets.open.isEmpty)
    }

    @Test("when all fail, the error names each address and its reason")
    func failing() {
        let sockets = StagedSockets(v4: .refuses, v6: .refuses)
        let (result, _, _) = connect(sockets)
        #expect(result == "ECONNREFUSED: connection refused (127.0.0.1:80), connection refused ([::1]:80)")
        #expect(sockets.open.isEmpty)
    }

    @Test("the time limit applies to all attempts together")
    func limit() {
        let sockets = StagedSockets(v4: .isDead, v6: .isDead)
        let (result, seconds, _) = connect(sockets, timeout: .seconds(7))
        #expect(result == "timed out")
        #expect(seconds == 7)
        #expect(sockets.open.isEmpty)
    }
}
