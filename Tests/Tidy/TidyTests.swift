import Foundation
import TestSupport
import Testing

/// The rules of the house are in scripts/tidy. These tests run it, and show that it finds violations of each rule.
@Suite("Tidy", .timed)
struct TidyTests {
    @Test("this tree keeps the rules of the house")
    func tree() throws {
        let run = try Binary.run([], program: Binary.repository + "/scripts/tidy", name: "tidy", timeout: 600)
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }

    @Test("this tree has the form of the formatters")
    func form() throws {
        let run = try Binary.shell("scripts/check format", directory: Binary.repository)
        #expect(run.status == 0, "\(run)")
    }

    @Test("a tree that keeps the rules has no findings")
    func clean() throws {
        let small = try SmallTree()
        defer { small.remove() }
        #expect(try small.findings() == [])
    }

    /// Each round breaks one more rule in every file, so that one run shows many violations.
    @Test("a violation is found in its line", arguments: Violation.rounds)
    func violation(_ round: [Violation]) throws {
        let small = try SmallTree()
        defer { small.remove() }
        for planted in round { try small.plant(planted.text, in: planted.path, replaces: planted.replaces) }
        let findings = try small.findings()
        for planted in round {
            let place = "\(planted.path):\(planted.line): \(planted.rule): "
            #expect(findings.contains { $0.hasPrefix(place) }, "\(place) is missing in \(findings)")
        }
    }

    @Test("every rule has a violation in these tests")
    func rules() throws {
        let run = try Binary.run(["--rules"], program: Binary.repository + "/scripts/tidy", name: "tidy")
        let rules = Set(run.output.split(separator: "\n").map { String($0.prefix { $0 != ":" }) })
        #expect(rules == Set(Violation.all.map(\.rule)), "\(run.errors)")
    }

    @Test("plain English has no findings")
    func plain() throws {
        let small = try SmallTree()
        defer { small.remove() }
        let texts = [
            "There is no file, and there still are no names.", "It is no longer open; they are no longer read.",
            "The word `is^~told` is quoted.", "The text was toldo.", "The answer is no.", "Whose turn it is, is known.",
            "Officially open.", "Whole lines are read.", "The call is no-op code.", "Someone who waits.",
        ]
        let code = texts.map { "-- \($0)\nlocal text = \"It says: \($0)\"\n" }
        try small.plant(code.joined(), in: Violation.part)
        try small.plant(texts.map { "\n\($0)\n\n- \($0)\n" }.joined(), in: "README.md")
        #expect(try small.findings() == [])
    }

    @Test("the pairs of docs/writing.md are exempt between their marker lines, and nothing else is")
    func pairs() throws {
        let small = try SmallTree()
        defer { small.remove() }
        let table = "| before | after |\n|---|---|\n| It is^~told. | The call reports it. |\n"
        let exempt = "\n<!-- tidy: examples -->\n\n\(table)\n<!-- tidy: end of examples -->\n"
        try small.plant(exempt + "\nIt is^~told.\n", in: "README.md")
        #expect(try small.findings().map { $0.prefix(23) } == ["README.md:18: language:"])
    }

    /// Functions of exactly 70 lines: the lines of the functions inside them do not count.
    static let allowed = [
        ("Sources/Engine/Swift/Loop.swift", "func long() {\n\(steps(68))    func inner() {\n\(steps(60))    }\n}\n"),
        ("Sources/Engine/Swift/Loop.swift", "extension Loop {\n\(steps(40))    var x: Int {\n\(steps(60))    }\n}\n"),
        ("Sources/Engine/Lua/part.lua", "local function f()\n\(steps(68))  f(function()\n\(steps(60))  end)\nend\n"),
        ("Sources/Engine/C/two.c", "static const int numbers[] = {\n\(steps(90))};\n"),
    ]

    static func steps(_ count: Int) -> String { String(repeating: "    step(),\n", count: count) }

    @Test("only a function's own lines count", arguments: allowed)
    func own(path: String, text: String) throws {
        let small = try SmallTree()
        defer { small.remove() }
        try small.plant(text, in: path)
        #expect(try !small.findings().contains { $0.contains(": functions: ") })
    }

    @Test("wrong arguments have status 64")
    func misuse() throws {
        let small = try SmallTree()
        defer { small.remove() }
        #expect(try small.tidy(["no/such/file"]).status == 64)
        #expect(try small.tidy(["--nonsense"]).status == 64)
        #expect(try small.tidy(["Sources/Engine"]).status == 0)
        try small.plant("// The size~is^~told.\n", in: Violation.loop)
        #expect(try small.tidy(["Sources/Engine/C"]).status == 0)
        #expect(try small.tidy(["Sources/Engine/Swift"]).status == 1)
    }

    @Test("sentences are drawn with their places, and the same ones by the same seed")
    func draw() throws {
        let runs = try (0..<2).map { _ in
            try Binary.run(
                ["--draw", "20", "--seed", "7", "Sources/Prompt", "docs/guide.md"],
                program: Binary.repository + "/scripts/tidy", name: "tidy")
        }
        let kinds = runs[0].output.split(separator: "\n").compactMap { $0.split(separator: ": ").dropFirst().first }
        #expect(runs[0].output == runs[1].output)
        #expect(kinds.count == 20 && kinds.filter { $0 == "comment" }.count == 12)
        #expect(kinds.filter { $0 == "message" }.count == 3)
    }

    @Test("each option of a usage text is drawn as a sentence of its own")
    func drawUsage() throws {
        let small = try SmallTree()
        defer { small.remove() }
        let usage = """
            #
            # many [OPTION]...: does many things at once.
            #   --all       does all of them, in the
            #               order of their names
            #   --none      does none of them, for tests
            # The status is 1 after a failure.

            """
        try small.plant(usage, in: "scripts/setup")
        let output = try small.tidy(["--draw", "20", "scripts/setup"]).output
        let drawn = output.split(separator: "\n").map { String($0.split(separator: ": comment: ").last ?? "") }
        let expected = [
            "does all of them, in the order of their names", "does none of them, for tests",
            "many [OPTION]...: does many things at once.", "The status is 1 after a failure.",
        ]
        #expect(Set(drawn).isSuperset(of: expected) && drawn.allSatisfy { !$0.contains("--") })
    }
}
