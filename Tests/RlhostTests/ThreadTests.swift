import Foundation
import Testing

@Suite("Threads")
struct ThreadTests {
    static let folder = "Tests/RlhostTests/Scripts"

    @Test(
        "threads do what the script expects, misuse included",
        arguments: ["thread-misuse.lua", "thread-crossing.lua", "thread-requests.lua", "thread-ends.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(Self.folder)/\(script)") }

    @Test("every script beside these tests is run by one of them")
    func allAreRun() throws {
        let tests = ["ThreadTests", "PortTests", "NotificationTests", "AllocationCountTests"]
        let text = try tests.map {
            try String(
                contentsOf: URL(filePath: "\(Binary.repository)/Tests/RlhostTests/\($0).swift"), encoding: .utf8)
        }.joined()
        for script in ToldScript.all(in: Self.folder) {
            #expect(text.contains("\"\(script)\""), "nobody runs \(script): it may be broken")
        }
    }

    private static func run(
        _ script: String, _ arguments: String..., environment: [String: String] = [:], seconds: Int = 120
    )
        throws -> Binary.Result
    {
        try Binary.run(
            ["\(folder)/\(script)"] + arguments, environment: environment, directory: Binary.repository,
            timeout: Double(seconds))
    }

    /// A longer run, also under ThreadSanitizer: `RLHOST=… swift test`, or the script itself with a number of seconds.
    @Test("signals, wakes, performs, stops, messages and ends at random neither hang nor crash")
    func stress() throws {
        let seed = Int.random(in: 0..<1_000_000_000)
        let run = try Self.run("thread-stress.lua", "3", "\(seed)")
        #expect(run.output.contains(", failures 0\n"), "seed \(seed): \(run.output) \(run.errors)")
        #expect(run.status == 0 && run.errors == "", "seed \(seed): \(run.errors)")
    }

    @Test("messages arrive in order, each once, also when ports are full")
    func messages() throws {
        let run = try Self.run("thread-messages.lua", "40000")
        #expect(run.errors == "")
        #expect(run.output == "40000 received, 0 out of order\n10000 passed on, 0 out of order\n")
    }

    /// More of it: the script itself, with other seeds and more calls.
    @Test("whatever a script calls, with whatever, from wherever, the process does not die of it", arguments: 1...4)
    func attack(seed: Int) throws {
        try Binary.withDirectory { directory in
            // For its message ports.
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let run = try Self.run("attack.lua", "\(seed)", "2000", environment: ["XDG_RUNTIME_DIR": directory])
            #expect(!run.timedOut && run.signal == nil, "seed \(seed): \(run)")
            #expect([0, 1].contains(run.status), "seed \(seed): \(run)")
        }
    }

    /// What a leak of 100 bytes, or of one state in a hundred threads, would add is more than the limit.
    @Test(
        "what was made and dropped leaves no memory behind",
        .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer, "which keeps memory"),
        arguments: [
            ("threads", 800), ("failures", 800), ("ports", 60_000), ("sources", 60_000), ("performs", 16_000),
            ("handles", 30_000),
        ])
    func memory(kind: String, count: Int) throws {
        let run = try Self.run("thread-memory.lua", kind, "\(count)")
        let match = try #require(run.output.firstMatch(of: /grown by (\d+) kB/), "\(run.output) \(run.errors)")
        let growth = try #require(Int(match.1))
        #expect(growth < 4000, "\(count) \(kind): \(growth) kB")
    }
}
