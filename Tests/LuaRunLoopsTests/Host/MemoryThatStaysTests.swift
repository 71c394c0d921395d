import Foundation
import TestSupport
import Testing

/// For each kind of object that a script can make: what was made, used and dropped leaves no memory behind.
@Suite(
    "Memory that stays", .timed,
    .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer, "which keeps memory"))
struct MemoryThatStaysTests {
    private static let script = "scripts/benchmarks/stays.lua"

    /// The kinds, as the script lists them, each with the number that takes a release build about a second.
    private static let kinds: [(kind: String, count: Int)] = {
        let lines = (try? Binary.run([script], directory: Binary.repository))?.output.split(separator: "\n") ?? []
        return lines.compactMap { line in
            guard let match = line.firstMatch(of: /^(.*?) +(\d+)$/), let count = Int(match.2) else { return nil }
            return (String(match.1), count)
        }
    }()

    @Test("all kinds are known")
    func list() { #expect(Self.kinds.count > 30) }

    /// `scripts/bench --stays` has more of each. A leak of a hundred bytes for each, or of one state in a hundred threads, is more than
    /// what the sizes of tables and pools differ by.
    @Test("objects of each kind leave nothing", .soak(seconds: 120))
    func kinds() throws {
        for seed in Soak.seeds {
            let (kind, count) = Self.kinds[Int(seed % UInt64(Self.kinds.count))]
            try check(kind, count > 2000 ? count / 2 : count)
        }
    }

    private func check(_ kind: String, _ count: Int) throws {
        try Binary.withDirectory { directory in
            // For message ports.
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            // What the allocators happen to keep differs from number to number; what is lost grows with it.
            var least = Int.max
            for factor in [1, 2, 4] where least >= 2_000_000 {
                let run = try Binary.run(
                    [Self.script, kind, "\(count * factor)"], environment: ["XDG_RUNTIME_DIR": directory],
                    directory: Binary.repository,
                    timeout: 240)
                least = min(
                    least, try #require(Int(run.output.trimmingCharacters(in: .whitespacesAndNewlines)), "\(run)"))
            }
            #expect(least < 2_000_000, "\(least) bytes stay of \(count) of the kind \(kind)")
        }
    }
}
