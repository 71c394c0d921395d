import Foundation
package import Testing

/// A test of random cases. The test runs for a second in `scripts/test`, and for its full length with `RLHOST_SOAK=1`.
///
///     @Test("whatever happens, invariants hold", .soak(seconds: 60)) func invariants() {
///         for seed in Soak.seeds { #expect(RandomProgram(seed: seed).run(), "seed \(seed)") }
///     }
///
/// `RLHOST_SOAK_SECONDS` sets another length, and `RLHOST_SEED` the first seed.
package struct Soak: TestTrait, TestScoping {
    @TaskLocal private static var current = Soak(seconds: 0)
    private let seconds: Double

    fileprivate init(seconds: Double) { self.seconds = seconds }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let length = Self.number("RLHOST_SOAK_SECONDS") ?? (Self.isLong ? seconds : 1)
        print("soak: \(test.id.nameComponents.joined(separator: ".")): \(length) s, RLHOST_SEED=\(Self.seed)")
        try await Self.$current.withValue(Soak(seconds: length)) { try await function() }
    }

    /// Whether soaks run for their full length.
    package static let isLong = (number("RLHOST_SOAK") ?? 0) != 0

    /// The first seed; all soaks of a run have the same.
    package static let seed: UInt64 =
        ProcessInfo.processInfo.environment["RLHOST_SEED"].flatMap { UInt64($0) }
        ?? UInt64.random(in: 0..<1_000_000_000)

    /// The length of the test in seconds.
    package static var length: Double { current.seconds }

    /// Consecutive seeds until the time of the test is over; at least one.
    package static var seeds: some Sequence<UInt64> {
        let end = DispatchTime.now().uptimeNanoseconds + UInt64(current.seconds * 1e9)
        return sequence(first: seed) { DispatchTime.now().uptimeNanoseconds < end ? $0 + 1 : nil }
    }

    private static func number(_ name: String) -> Double? {
        ProcessInfo.processInfo.environment[name].flatMap { Double($0) }
    }
}

extension Trait where Self == Soak {
    package static func soak(seconds: Double) -> Self { Soak(seconds: seconds) }
}
