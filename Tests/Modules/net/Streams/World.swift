import CStreams
import Glibc
import RunLoops

@testable import Streams

/// A loop in simulated time, and its streams.
final class World {
    let loop: RunLoop
    let network: Network

    init(_ system: SystemCalls = SystemCalls(), waitsForDescriptors: Bool = false) {
        loop = RunLoop(poller: SimulatedPoller(waitsForDescriptors: waitsForDescriptors))
        network = Network(loop: loop, system: system)
    }

    /// Returns two streams in memory, in the loop's default mode.
    func memory(latency: Duration = .milliseconds(1), chunk: Int = 0) -> (Stream, Stream) {
        let (a, b) = network.memoryPair(.init(latency: latency, chunk: chunk))
        loop.add(a)
        loop.add(b)
        return (a, b)
    }

    func run(for duration: Duration = .seconds(1)) { loop.run(in: .default, for: duration) }
}

extension Stream.Outcome {
    /// The bytes as text; "end", "timed out", or the code of a failure in brackets.
    var text: String {
        switch self {
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
        case .end: "end"
        case .timedOut: "timed out"
        case .failed(let failure): "[\(failure.code)]"
        }
    }
}
