import Foundation
import Testing

@Suite("Where things are")
struct LayoutTests {
    @Test("the top level holds what belongs there and nothing else")
    func topLevel() {
        let allowed: Set = [
            "Package.swift", "Sources", "Tests", "scripts", "docs", "README.md", "CHANGELOG.md", "LICENSE",
        ]
        for entry in Set(Tree.files.map { $0.split(separator: "/")[0] }) where !entry.hasPrefix(".") {
            #expect(
                allowed.contains(String(entry)),
                "'\(entry)' is at the top level, where a newcomer looks first: put it in Sources, Tests, scripts or docs"
            )
        }
    }

    @Test("what a build makes is not in the repository", arguments: [".build/", "Package.resolved", ".swiftpm/"])
    func noBuildProducts(prefix: String) {
        let found = Tree.files.filter { $0.hasPrefix(prefix) }
        #expect(found.isEmpty, "a build makes \(found); in the repository it only causes conflicts: see .gitignore")
    }

    /// The README promises two commands, and CI has to try the very same.
    @Test("the README's two commands are the ones that CI runs")
    func commands() throws {
        let readme = try Tree.text("README.md")
        let blocks = readme.components(separatedBy: "```sh\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
        let commands = blocks.first?.split(separator: "\n").map { $0.split(separator: " ")[0] } ?? []
        #expect(commands == ["scripts/setup", "scripts/test"], "the first sh block of README.md is the two commands")
        let ci = try Tree.text(".ci/run")
        #expect(
            ci.contains("\nscripts/test "), ".ci/run has to call the README's test command, or CI tests something else")
        #expect(try Tree.text("scripts/check").contains("scripts/test"), "scripts/check is everything that CI checks")
    }

    @Test("scripts can be executed, and say what they are for")
    func scripts() throws {
        let scripts = Tree.files(under: "scripts").filter { $0.split(separator: "/").count == 2 } + [".ci/run"]
        for path in scripts where URL(filePath: path).pathExtension.isEmpty {
            #expect(
                FileManager.default.isExecutableFile(atPath: Tree.url(path).path), "\(path) is not executable: chmod +x"
            )
            let lines = try Tree.lines(path)
            #expect(lines[0].hasPrefix("#!"), "\(path) has no #! line, so it runs under whatever shell calls it")
            #expect(
                lines.count > 1 && ["# ", "-- ", "\"\"\""].contains(where: lines[1].hasPrefix),
                "\(path): the second line says what the script is for, to whoever opens it")
        }
    }
}
