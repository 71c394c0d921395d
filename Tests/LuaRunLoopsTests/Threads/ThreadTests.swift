import Foundation
import TestSupport
import Testing

@Suite("Threads")
struct ThreadTests {
    static let folder = "Tests/Scripts"

    @Test(
        "threads do what the script expects, misuse included",
        arguments: ["thread-misuse.lua", "thread-crossing.lua", "thread-requests.lua", "thread-ends.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(Self.folder)/\(script)") }

    @Test("every script of Tests/Scripts is run by one of these tests")
    func allAreRun() throws {
        let folder = URL(filePath: Binary.repository + "/Tests")
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        let text = try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.map {
            try String(contentsOf: $0, encoding: .utf8)
        }.joined()
        for script in ToldScript.all(in: Self.folder) {
            #expect(text.contains("\(script)\""), "nobody runs \(script): it may be broken")
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
    @Test("whatever a script calls, with whatever, from wherever, the process does not die of it", arguments: 0..<6)
    func attack(number: Int) throws {
        // Another program each time; ATTACK_SEED repeats them, and scripts/attack goes on for as long as one likes.
        let seed = Self.firstSeed + number
        try Binary.withDirectory { directory in
            // For its message ports.
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
            let run = try Self.run("attack.lua", "\(seed)", "2000", environment: ["XDG_RUNTIME_DIR": directory])
            #expect(!run.timedOut && run.signal == nil, "ATTACK_SEED=\(seed): \(run)")
            #expect([0, 1].contains(run.status), "ATTACK_SEED=\(seed): \(run)")
        }
    }

    private static let firstSeed: Int = {
        let seed =
            ProcessInfo.processInfo.environment["ATTACK_SEED"].flatMap { Int($0) } ?? Int.random(in: 0..<1_000_000_000)
        print("ATTACK_SEED=\(seed)")
        return seed
    }()
}
