import Foundation
import TestSupport
import Testing

/// The programs of scripts/, as far as they need no build.
@Suite("Scripts", .timed) struct ScriptTests {
    private static let names =
        ((try? FileManager.default.contentsOfDirectory(
            atPath: Binary.repository + "/scripts")) ?? [])
        .filter { !$0.contains(".") && !$0.hasPrefix("_") && $0 != "benchmarks" }.sorted()

    private func run(_ command: String) throws -> Binary.Result {
        try Binary.shell("scripts/\(command)", directory: Binary.repository)
    }

    @Test("each script explains its purpose", arguments: names) func help(name: String) throws {
        let result = try run("\(name) --help")
        #expect(result.status == 0 && result.output.count > 40 && result.errors.isEmpty, "\(result)")
    }

    @Test("scripts/test suggests names for an unknown one, before anything is built")
    func unknownSuite() throws {
        for (wrong, near) in [("tmier", "Timer"), ("htpp", "http"), ("Tests/Modlues", "Tests/")] {
            let result = try run("test \(wrong)")
            #expect(result.status == 64 && result.output.isEmpty && result.seconds < 10, "\(result)")
            #expect(result.errors.contains("'\(wrong)'") && result.errors.contains(near), "\(result)")
        }
        #expect(try run("test --nonsense").status == 64)
    }

    @Test("scripts/test lists all suites and Lua test files, and each Swift suite has a thread that may block")
    func list() throws {
        let listed = try run("test --list").output
        for name in ["TimerHeap ", "Script ", "json "] { #expect(listed.contains("\n" + name), "\(listed)") }
        let files = try #require(FileManager.default.enumerator(atPath: Binary.repository + "/Tests"))
        for case let file as String in files where file.hasSuffix("Tests.swift") {
            let text = try String(contentsOfFile: "\(Binary.repository)/Tests/\(file)", encoding: .utf8)
            #expect(!text.contains("@Test") || text.contains(".timed"), "\(file): give its suite the trait .timed")
        }
    }

    @Test("scripts/soak lists its kinds") func unknownKind() throws {
        for wrong in ["nonsense", "api soon", "api -1", "api 1 2 3", "1 2 3", "0", "1.2.3"] {
            let result = try run("soak \(wrong)")
            #expect(result.status == 64 && result.output.isEmpty, "\(result)")
            #expect(result.errors.contains("api, calls, corefoundation, cuts, data, endings"), "\(result)")
        }
        let result = try Binary.shell(
            "RLHOST='\(Binary.path)' scripts/soak api 0.1 7", directory: Binary.repository)
        #expect(result.status == 0 && result.output.hasPrefix("soak: api, seed 7\nfuzz: "), "\(result)")
        // A number without a kind is the number of seconds for the kind "server".
        #expect(try run("soak 5 x").errors.contains("SECONDS and SEED are numbers, not 5 x"))
    }

    @Test("scripts/simulate lists its rows") func unknownRow() throws {
        for wrong in ["nonsense", "restart soon", "restart 0", "restart 1 2 3"] {
            let result = try run("simulate \(wrong)")
            #expect(result.status == 64 && result.output.isEmpty, "\(result)")
            #expect(result.errors.contains("restart, leases, work_queue, slow_consumers"), "\(result)")
        }
    }

    private static let hasPython =
        (try? Binary.shell("ls ~/.pyenv/versions/3.10.*/lib/libpython3.10.so.1.0"))?.status == 0

    /// CONTRIBUTING.md's sh blocks. A line may need a file that an earlier one of its block has made.
    private static let blocks: [String] = {
        let text = (try? String(contentsOfFile: Binary.repository + "/CONTRIBUTING.md", encoding: .utf8)) ?? ""
        return text.matches(of: /(?s)```sh\n(.*?)```/).map { String($0.1) }
    }()

    /// Runs the lines that are not marked "long".
    @Test("the commands of CONTRIBUTING.md work", arguments: blocks) func contributing(_ block: String) throws {
        #expect(Self.blocks.joined().split(separator: "\n").count > 8)
        for line in block.split(separator: "\n") {
            let parts = line.components(separatedBy: "  # ")
            let script = parts[0].split(separator: " ")[0]
            if script.hasPrefix("scripts/") {
                #expect(FileManager.default.isExecutableFile(atPath: "\(Binary.repository)/\(script)"), "\(line)")
            }
            guard !(parts.last ?? "").hasPrefix("long: ") else { continue }
            // TidyTests runs these two.
            if script == "scripts/tidy" || parts[0].hasPrefix("scripts/check format") { continue }
            // Debian has no Python for the toolchain's debugger.
            if parts[0].contains(" lldb "), !Self.hasPython { continue }
            let command = parts[0].replacing(".build/debug/rlhost", with: "\"$RLHOST\"")
            let result = try Binary.shell("export RLHOST; \(command)", directory: Binary.repository)
            #expect(result.status == 0, "\(line): \(result)")
        }
    }

    /// This test builds the whole program in a copy of the repository.
    @Test("the module of CONTRIBUTING.md can be added as described", .enabled(if: Soak.isLong, "it takes minutes"))
    func module() throws {
        let text = try String(contentsOfFile: Binary.repository + "/CONTRIBUTING.md", encoding: .utf8)
        func block(_ language: String) throws -> String {
            let part = try #require(text.components(separatedBy: "## Add a module").last)
            let rest = try #require(part.components(separatedBy: "```\(language)\n").dropFirst().first)
            return try #require(rest.components(separatedBy: "```").first)
        }
        let (lua, swift) = try (block("lua"), block("swift"))
        try Binary.withDirectory { root in
            let copied = try Binary.shell(
                "cp -r Package.swift Sources docs Tests scripts \(root)", directory: Binary.repository)
            #expect(copied.status == 0, "\(copied)")
            func edit(_ find: String, _ change: (String) -> String) throws {
                let path =
                    try Binary.shell("grep -rl --include='*.c' --include='*.swift' '\(find)' Sources", directory: root)
                    .output.split(separator: "\n").first.map { "\(root)/\($0)" } ?? ""
                let text = try String(contentsOfFile: path, encoding: .utf8)
                try change(text).write(toFile: path, atomically: true, encoding: .utf8)
            }
            let place = try #require(text.firstMatch(of: /1\. `(.*?greet\.lua)`/)?.1)
            try FileManager.default.createDirectory(
                atPath: URL(filePath: "\(root)/\(place)").deletingLastPathComponent().path,
                withIntermediateDirectories: true)
            try lua.write(toFile: "\(root)/\(place)", atomically: true, encoding: .utf8)
            let listed = try Binary.shell(
                "echo runloop.greet >>Sources/Lua/Embedded/order && Sources/Lua/Embedded/generate", directory: root)
            #expect(listed.status == 0, "\(listed)")
            try edit(#"Battery("runloop.schedule""#) {
                $0.replacing(
                    "        Battery(\"runloop.schedule\"", with: swift + "        Battery(\"runloop.schedule\"")
            }
            let build = try Binary.shell(
                "swift build --product rlhost 2>&1 && .build/debug/rlhost -e 'print(require \"runloop.greet\".hello "
                    + "\"Ada\")'",
                environment: ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? ""], directory: root, timeout: 1800
            )
            #expect(build.output.hasSuffix("hello, Ada\n"), "\(build.output.suffix(2000))")
        }
    }
}
