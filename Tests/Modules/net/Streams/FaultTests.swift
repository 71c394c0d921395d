import CStreams
import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Streams

@Suite("Streams: when system calls fail", .timed)
struct FaultTests {
    private static let text = Array((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })

    private static func isText(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // Compares memory, not elements: the tests compare many megabytes.
        text.withUnsafeBytes { text in
            guard let one = text.baseAddress, let other = bytes.baseAddress else { return false }
            return bytes.count == text.count && memcmp(one, other, text.count) == 0
        }
    }

    /// Returns the results of clients that send to a server, receive the same bytes and compare them.
    private func exchange(_ system: FaultySystem, clients: Int = 8) -> [String] {
        // Unix sockets of one thread deliver at once: simulated time need not wait for descriptors.
        let world = World(system)
        let place = Place.abstract(Array("rlhost-fault-\(getpid())-\(UInt64.random(in: 0 ... .max))".utf8))
        var results: [String] = []
        do {
            var listener: Listener?
            // Making a listener may fail, too.
            for _ in 0..<50 where listener == nil { listener = try? Listener(world.network, at: place) }
            guard let listener else { return ["no listener"] }
            listener.onConnection = { stream in
                stream.deliver { stream, outcome in
                    if case .bytes(let bytes) = outcome { stream.write(Array(bytes)) } else { stream.close() }
                }
            }
            world.loop.add(listener)
            for _ in 0..<clients {
                var options = Stream.ConnectOptions()
                options.timeout = .seconds(20)
                world.network.connect(to: place, options) { outcome in
                    switch outcome {
                    case .failure(let failure): results.append(failure.code)
                    case .success(let stream):
                        stream.write(Self.text)
                        stream.finish()
                        stream.read(.all, limit: 1 << 20, timeout: .seconds(20)) { outcome in
                            if case .bytes(let bytes) = outcome {
                                results.append(Self.isText(bytes) ? "whole" : "a part")
                            } else {
                                results.append(outcome.text)
                            }
                            stream.close()
                        }
                    }
                }
            }
            world.run(for: .seconds(60))
            listener.close()
            for item in world.loop.allItems { (item as? Streams.Stream)?.close() }
            // A closed stream that waits for its peer's end does not keep the loop running.
            world.loop.add(RunLoop.Timer(fireDate: world.loop.now + .seconds(9)) { _, _ in })
            world.run(for: .seconds(10))
            #expect(world.loop.allItems.isEmpty, "left in the loop")
        }
        return results
    }

    @Test("interrupted and partial calls change nothing", arguments: 1...10 as ClosedRange<UInt64>)
    func parts(seed: UInt64) {
        var random = Seeded(state: seed)
        let system = FaultySystem(
            fault: { call, _ in
                guard [.receive, .send, .accept].contains(call) else { return nil }
                return Int.random(in: 0..<8, using: &random) == 0 ? EINTR : nil
            },
            part: { Int.random(in: 1...max(1, $0), using: &random) })
        #expect(exchange(system) == [String](repeating: "whole", count: 8))
        #expect(system.open.isEmpty)
    }

    @Test("failures are reported, and leave no descriptor", arguments: 1...30 as ClosedRange<UInt64>)
    func failures(seed: UInt64) {
        var random = Seeded(state: seed)
        let system = FaultySystem(
            fault: { call, _ in
                Int.random(in: 0..<60, using: &random) == 0 ? call.errors.randomElement(using: &random) : nil
            },
            part: { Int.random(in: 1...max(1, $0), using: &random) })
        let results = exchange(system)
        #expect(results.count == 8 || results == ["no listener"], "\(results) after \(system.failed)")
        // A failure in the server may cut its answer off: the client sees an end, but never wrong bytes.
        if system.failed.isEmpty { #expect(results == [String](repeating: "whole", count: 8)) }
        #expect(system.open.isEmpty, "\(system.open) are left open")
    }

    @Test("each call fails with each of its errors, once", arguments: FaultySystem.Call.allCases)
    func each(call: FaultySystem.Call) {
        for error in call.errors {
            for time in [0, 1, 2, 5] {
                let system = FaultySystem(fault: { $0 == call && $1 == time ? error : nil })
                let results = exchange(system, clients: 3)
                #expect(results.count == 3, "\(call) \(error), time \(time): \(results)")
                #expect(system.open.isEmpty, "\(call) \(error), time \(time): \(system.open) are left open")
                // One failure affects one connection at most.
                #expect(results.count { $0 == "whole" } >= 2, "\(call) \(error), time \(time): \(results)")
            }
        }
    }

    @Test("each call that always fails returns an error", arguments: FaultySystem.Call.allCases)
    func always(call: FaultySystem.Call) {
        // Errors of a single connection cannot last.
        let lasting = call == .accept ? [EMFILE, ENFILE, ENOBUFS, ENOMEM] : call.errors
        for error in lasting where error != EINTR && error != EAGAIN {
            let system = FaultySystem(fault: { $0 == call && $1 > 1 ? error : nil })
            let results = exchange(system, clients: 3)
            #expect(results.count == 3 || results == ["no listener"], "\(call) \(error): \(results)")
            #expect(system.open.isEmpty, "\(call) \(error): \(system.open) are left open")
        }
    }

    @Test(
        "a listener without descriptors neither spins nor stops accepting",
        arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
    func backOff(error: Int32) throws {
        var isShort = true
        let system = FaultySystem(fault: { call, _ in call == .accept && isShort ? error : nil })
        let world = World(system)
        let place = Place.abstract(Array("rlhost-short-\(getpid())-\(UInt64.random(in: 0 ... .max))".utf8))
        let listener = try Listener(world.network, at: place)
        var troubles: [String] = []
        var accepted = 0
        listener.onTrouble = { troubles.append($0?.code ?? "over") }
        listener.onConnection = { stream in
            accepted += 1
            stream.close()
        }
        world.loop.add(listener)
        var connected = 0
        for _ in 0..<3 { world.network.connect(to: place) { if case .success = $0 { connected += 1 } } }
        world.run(for: .seconds(3))
        // The listener tries ten times a second, not thousands of times. It reports the failure once.
        #expect(20...40 ~= (system.counts[.accept] ?? 0))
        #expect(troubles.count == 1)
        #expect(accepted == 0)
        isShort = false
        world.run(for: .seconds(1))
        #expect(accepted == 3)
        #expect(troubles.count == 2 && troubles.last == "over")
        // After a long time, waiting clients are closed one by one.
        isShort = true
        world.network.connect(to: place) { if case .success = $0 { connected += 1 } }
        world.run(for: .seconds(10))
        #expect(accepted == 3)
        listener.close()
    }
}
