import Foundation
import Testing

@Suite("Documents, tidy")
struct DocumentTidyTests {
    static let documents = Tree.files.filter { $0.hasSuffix(".md") }

    @Test("every link leads somewhere", arguments: documents)
    func links(path: String) throws {
        let text = try Self.withoutCode(Tree.text(path))
        let folder = Tree.url(path).deletingLastPathComponent()
        for match in text.matches(of: /\]\(([^)\s]+)\)/) {
            let target = String(match.1)
            guard !target.contains("://"), !target.hasPrefix("mailto:") else { continue }
            let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let url = parts[0].isEmpty ? Tree.url(path) : folder.appending(path: parts[0]).standardized
            #expect(
                FileManager.default.fileExists(atPath: url.path),
                "\(path) links to \(target), which does not exist: a reader who follows it is lost")
            guard parts.count == 2, url.pathExtension == "md", let other = try? String(contentsOf: url, encoding: .utf8)
            else { continue }
            #expect(
                Self.anchors(other).contains(parts[1]), "\(path) links to \(target), where there is no such heading")
        }
    }

    private static func withoutCode(_ text: String) -> String {
        text.replacing(/(?ms)^```.*?^```$/, with: "").replacing(/`[^`\n]*`/, with: "")
    }

    /// The names that GitHub gives to headings.
    private static func anchors(_ text: String) -> Set<String> {
        Set(
            text.matches(of: /(?m)^#+ (.*)$/).map { match in
                String(match.1).lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .replacing(" ", with: "-")
            })
    }

    @Test("a document has one title, which comes first", arguments: documents)
    func titles(path: String) throws {
        let text = try Tree.text(path)
        #expect(text.hasPrefix("# "), "\(path) does not begin with its title")
        let titles = Self.withoutCode(text).matches(of: #/(?m)^# /#).count
        #expect(titles == 1, "\(path) has \(titles) titles; sections have '##'")
    }

    @Test("every page of the documentation can be reached from the README")
    func reachable() throws {
        var reached: Set = ["README.md"]
        var open = ["README.md"]
        while let path = open.popLast() {
            guard path.hasSuffix(".md") else { continue }
            for match in try Tree.text(path).matches(of: /\]\(([^)#\s]+)(?:#[^)]*)?\)/) where !match.1.contains("://") {
                let url = Tree.url(path).deletingLastPathComponent().appending(path: String(match.1)).standardized
                let target = String(url.path.dropFirst(Tree.root.standardized.path.count)).trimmingCharacters(in: ["/"])
                if reached.insert(target).inserted { open.append(target) }
            }
        }
        for path in Self.documents where path.hasPrefix("docs/") {
            #expect(reached.contains(path), "nothing leads from the README to \(path), so nobody will read it")
        }
    }

    @Test("the README is short enough to be read")
    func readme() throws {
        let count = try Tree.lines("README.md").count
        #expect(count <= 120, "README.md has \(count) lines: what is for a second look belongs into docs")
    }

    private static let verbsOfWork = [
        "add", "fix", "fixe", "refactor", "implement", "change", "chang", "improve", "improv", "update", "updat",
        "move",
        "mov", "rename", "renam", "bump", "introduce", "introduc", "support",
    ]

    /// An effect is told by a sentence whose subject is what the user sees, not the code that was worked on.
    @Test("each entry of the changelog begins with what it means for the user")
    func changelog() throws {
        let lines = try Tree.lines("CHANGELOG.md")
        for (number, line) in lines.enumerated() {
            #expect(
                line.isEmpty || line.hasPrefix("#") || line.hasPrefix("- ") || line.hasPrefix("  ") || number == 2,
                "CHANGELOG.md:\(number + 1): an entry begins with '- ', and its further lines with two blanks")
            guard line.hasPrefix("- ") else { continue }
            let further = lines[(number + 1)...].prefix { $0.hasPrefix("  ") }
            let entry = ([String(line.dropFirst(2))] + further.map { String($0.dropFirst(2)) }).joined(separator: " ")
            let first = entry.prefix { $0 != " " }.lowercased()
            let isAboutWork = Self.verbsOfWork.contains { first == $0 || first == $0 + "s" || first == $0 + "ed" }
            #expect(
                !isAboutWork,
                "CHANGELOG.md:\(number + 1) begins with what was done ('\(entry.prefix(20))…'); the reader wants the effect"
            )
            #expect(
                entry.first?.isUppercase ?? false || entry.hasPrefix("`"),
                "CHANGELOG.md:\(number + 1) does not begin like a sentence")
            #expect(entry.hasSuffix("."), "CHANGELOG.md:\(number + 1) does not end like a sentence")
        }
    }

    /// The tree has to make sense to whoever clones it, wherever that is.
    @Test("nothing names a machine, its folders, or where packages came from", arguments: Tree.texts)
    func places(path: String) throws {
        guard path != "Tests/TidyTests/DocumentTidyTests.swift" else { return }
        let home = FileManager.default.homeDirectoryForCurrentUser.path
        for (number, line) in try Tree.lines(path).enumerated() {
            let place = "\(path):\(number + 1)"
            #expect(
                !line.contains(Tree.root.path + "/") && !line.contains(home + "/"),
                "\(place) names a folder of this machine, which nobody else has")
            #expect(
                !line.contains(/(?:^|[^\w.~])\/(home|root|Users|work|workspace)\/\w/),
                "\(place) names a folder of somebody's machine, which nobody else has")
            #expect(
                !line.contains(
                    /(?i)(registry|mirror|artifactory|nexus|proxy)[\w-]*\.[\w-]+\.\w+|deb\.debian\.org|luarocks\.org/),
                "\(place) names a package server: which one serves a machine is that machine's affair")
        }
    }
}
