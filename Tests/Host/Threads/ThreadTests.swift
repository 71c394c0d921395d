import Foundation
import TestSupport
import Testing

@Suite("Threads", .timed)
struct ThreadTests {
    static let folder = "Tests/Host/Scripts"

    @Test(
        "the checks of scripts about threads pass, misuse included",
        arguments: ["thread-misuse.lua", "thread-crossing.lua", "thread-requests.lua", "thread-ends.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(Self.folder)/\(script)") }

    @Test("every script of Tests/Host/Scripts is run by one of these tests")
    func allAreRun() throws {
        let folder = URL(filePath: Binary.repository + "/Tests")
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        let runners = files.compactMap { $0 as? URL }.filter {
            $0.pathExtension == "swift" || $0.lastPathComponent.hasSuffix("_test.lua")
        }
        let text = try runners.map {
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

    @Test("signals, wakes, performs, stops, messages and ends at random neither hang nor crash", .soak(seconds: 60))
    func stress() throws {
        for seed in Soak.seeds {
            let run = try Self.run("thread-stress.lua", "1", "\(seed)")
            #expect(run.output.contains(", failures 0\n"), "seed \(seed): \(run.output) \(run.errors)")
            #expect(run.status == 0 && run.errors == "", "seed \(seed): \(run.errors)")
        }
    }

    @Test("messages arrive in order, each once, also when ports are full")
    func messages() throws {
        let run = try Self.run("thread-messages.lua", "40000")
        #expect(run.errors == "")
        #expect(run.output == "40000 received, 0 out of order\n10000 passed on, 0 out of order\n")
    }

    @Test("random calls with random arguments, from anywhere, do not crash the process", .soak(seconds: 60))
    func attack() throws {
        for seed in Soak.seeds {
            try Binary.withDirectory { directory in
                // The message ports need a private directory.
                try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
                let run = try Self.run("attack.lua", "\(seed)", "1000", environment: ["XDG_RUNTIME_DIR": directory])
                #expect(!run.timedOut && run.signal == nil, "seed \(seed): \(run)")
                #expect([0, 1].contains(run.status), "seed \(seed): \(run)")
            }
        }
    }
}
