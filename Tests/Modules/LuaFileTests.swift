import Foundation
import TestSupport
import Testing

/// The tests that are written in Lua: all files of Tests called …_test.lua.
@Suite("Lua test files", .timed) struct LuaFileTests {
    /// Paths from the repository's root. RLHOST_LUA_TESTS restricts them: paths with colons between them.
    ///
    /// The paths are sorted by their ends, so that files of one module do not run at the same time. Such files often
    /// wait, for the module's programs or for limits of time, and would leave the processors idle.
    private static let files: [String] = {
        let wanted = ProcessInfo.processInfo.environment["RLHOST_LUA_TESTS"]?.split(separator: ":").map(String.init)
        let all = (try? FileManager.default.subpathsOfDirectory(atPath: Binary.repository + "/Tests")) ?? []
        return all.filter { $0.hasSuffix("_test.lua") }.map { "Tests/" + $0 }.filter { wanted?.contains($0) ?? true }
            .sorted { $0.reversed().lexicographicallyPrecedes($1.reversed()) }
    }()

    /// The program that runs them.
    private static func program(for path: String) -> String {
        path.contains("private_parts") ? Binary.built : Binary.path
    }

    @Test("the tests of a file pass", arguments: files) func file(_ path: String) throws {
        let documents = "\(Binary.repository)/docs"
        // `scripts/test` reads the times of the tests in the file.
        let report = ProcessInfo.processInfo.environment["RLHOST_LUA_REPORTS"].map {
            "--report=json=\($0)/\(path.replacingOccurrences(of: "/", with: "-"))"
        }
        let program = Self.program(for: path)
        let run = try Binary.run(
            ["test", "--timeout", "60"] + (report.map { [$0] } ?? []) + ["\(Binary.repository)/\(path)"],
            environment: [
                "DOCUMENTS": "\(documents)/lua", "REFERENCE": "\(documents)/lua/runloop-test.lua",
                "EXAMPLES": "\(documents)/examples", "RLHOST": program,
            ].merging(Soak.isLong ? ["RLHOST_SOAK": "1"] : [:]) { own, _ in own }, program: program, timeout: 180)
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }

    @Test(
        "each function names wrong arguments in an error at the script's line", .soak(seconds: 60))
    func wrongArgumentsAreNamed() throws {
        for seed in Soak.seeds {
            let run = try Binary.run(["\(Binary.repository)/Tests/Host/everything-wrong.lua", String(seed)])
            #expect(run.status == 0, "seed \(seed): \(run.output)\(run.errors)")
        }
    }
}
