import CStreams
import Glibc
import RunLoops

@testable import Streams

/// A loop in simulated time, and streams on it.
final class World {
    let loop: RunLoop
    let network: Network

    init(_ system: SystemCalls = SystemCalls(), waitsForDescriptors: Bool = false) {
        loop = RunLoop(poller: SimulatedPoller(waitsForDescriptors: waitsForDescriptors))
        network = Network(loop: loop, system: system)
    }

    /// Two streams in memory, in the loop's default mode.
    func memory(latency: Duration = .milliseconds(1), chunk: Int = 0) -> (Stream, Stream) {
        let (a, b) = network.memoryPair(.init(latency: latency, chunk: chunk))
        loop.add(a)
        loop.add(b)
        return (a, b)
    }

    func run(for duration: Duration = .seconds(1)) { loop.run(in: .default, for: duration) }
}

extension Stream.Outcome {
    /// The bytes as text; "end", "timed out", or a failure's code in brackets.
    var text: String {
        switch self {
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
        case .end: "end"
        case .timedOut: "timed out"
        case .failed(let failure): "[\(failure.code)]"
        }
    }
}

/// Numbers that are the same for each seed.
struct Seeded: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
