import Foundation
import Testing

@Suite("Architecture")
struct ArchitectureTests {
    /// Which rooms know which, in the order of the picture in docs/architecture.md: it is the rule.
    static let picture: [(room: String, knows: [String])] = {
        let text = (try? Tree.text("docs/architecture.md")) ?? ""
        return text.matches(of: /(?m)^(\w+) +→ ?(.*)$/).map { line in
            (String(line.1), line.2.split(separator: " ").map(String.init))
        }
    }()

    static let allowed = Dictionary(uniqueKeysWithValues: picture.map { ($0.room, Set($0.knows)) })

    /// What comes with Swift.
    static let system: Set<String> = ["Glibc", "Synchronization"]

    @Test("each target imports only what is below it", arguments: Tree.files(under: "Sources", "swift"))
    func imports(path: String) throws {
        let target = String(path.split(separator: "/")[1])
        let allowed = try #require(
            Self.allowed[target],
            "Sources/\(target) is new: say in the picture of docs/architecture.md what it may know")
        for line in try Tree.lines(path) {
            guard
                let match = line.firstMatch(
                    of:
                        /^(?:@[A-Za-z_()]+ )*(?:public |package |internal |private )?import (?:struct |class |enum |func )?(\w+)/
                )
            else { continue }
            let module = String(match.1)
            #expect(
                allowed.contains(module),
                """
                \(path) imports \(module), which \(target) must not know. Foundation and Dispatch slow the start down \
                and bring a RunLoop of their own; a room that knows one above it can no longer be used without it
                """)
        }
    }

    /// What can raise is called in `Lua` and the C beneath it, and nowhere else: a raise over a Swift frame is a crash later on.
    @Test("nothing above Lua calls its C functions", arguments: Tree.files(under: "Sources", "swift"))
    func sealed(path: String) throws {
        guard !path.hasPrefix("Sources/Lua/") else { return }
        for (number, line) in try Tree.lines(path).enumerated() {
            #expect(
                !SourceTests.code(line).contains(/\b(?:lua|luaL|cl)_[a-zA-Z_]+\b/),
                "\(path):\(number + 1): Stack, Call and Interpreter offer what is safe; add there what is missing")
        }
    }

    @Test("the targets of Package.swift depend on each other as the picture says")
    func dependencies() throws {
        let package = try Tree.text("Package.swift")
        let targets = package.matches(
            of: /\.(?:target|executableTarget|systemLibrary)\(\s*name: "(\w+)"(?:,\s*dependencies: \[([^\]]*)\])?/)
        #expect(targets.count >= 10, "Package.swift has a form that this test does not know")
        for target in targets where Tree.exists("Sources/\(target.1)") {
            let dependencies = Set((target.2 ?? "").matches(of: /"(\w+)"/).map { String($0.1) })
            let arrows = try #require(Self.allowed[String(target.1)], "\(target.1) is not in the picture")
            #expect(
                dependencies == arrows.subtracting(Self.system),
                "Package.swift and the picture in docs/architecture.md say different things about \(target.1)")
        }
    }

    @Test("every arrow of the picture points down, to a room that there is")
    func arrows() {
        let places = Dictionary(uniqueKeysWithValues: Self.picture.enumerated().map { ($1.room, $0) })
        for (place, row) in Self.picture.enumerated() {
            #expect(Tree.exists("Sources/\(row.room)"), "the picture has a room that is not there: \(row.room)")
            for known in row.knows where !Self.system.contains(known) {
                #expect(places[known].map { $0 > place } == true, "\(row.room) → \(known) does not point down")
            }
        }
    }

    @Test("what an arrow allows is used")
    func used() throws {
        for row in Self.picture {
            let files = Tree.files(under: "Sources/\(row.room)", "swift")
            guard !files.isEmpty else { continue }  // C
            let text = try files.map(Tree.text).joined(separator: "\n")
            for known in row.knows {
                #expect(
                    text.contains(try Regex("(?m)^[^/\\n]*import \(known)$")),
                    "nothing in \(row.room) imports \(known): an arrow that is not needed invites")
            }
        }
    }

    @Test("every room is in the picture")
    func rooms() throws {
        for target in Set(Tree.files(under: "Sources").map { String($0.split(separator: "/")[1]) }) {
            #expect(
                Self.allowed[target] != nil,
                "the picture in docs/architecture.md has no \(target): a reader would not find the way")
        }
    }

    // Files that need each other are one file in two halves: neither can be read, or changed, without the other.
    @Test("no C files of a target need each other in a circle")
    func circles() throws {
        var owner: [String: String] = [:]
        var words: [String: Set<String>] = [:]
        let definition = /(?m)^(?!static\b|typedef\b|return\b|else\b|#)[A-Za-z_][\w *]*?\b(\w+)\([^;{]*\)\s*\{/
        for path in Tree.files(under: "Sources", "c") {
            let text = try Tree.text(path).replacing(/\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"/, with: "")
            for match in text.matches(of: definition) { owner[String(match.1)] = path }
            words[path] = Set(text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init))
        }
        #expect(owner.count > 100, "C functions have a form that this test does not know")
        var needs: [String: Set<String>] = [:]
        for (path, words) in words { needs[path] = Set(words.compactMap { owner[$0] }).subtracting([path]) }
        func isReached(_ goal: String, from path: String, _ seen: inout Set<String>) -> Bool {
            (needs[path] ?? []).contains { next in
                next == goal || seen.insert(next).inserted && isReached(goal, from: next, &seen)
            }
        }
        for path in needs.keys.sorted() {
            var seen: Set<String> = []
            #expect(
                !isReached(path, from: path, &seen),
                "\(path) needs files that need it: move what both need into a file below them")
        }
    }

    // What nobody uses is read, built and kept right by everybody. Names that several files declare say little: they count where a
    // file uses one without declaring it itself.
    @Test("no file of the program is dead")
    func deadFiles() throws {
        var declared: [String: Set<String>] = [:]
        var used: Set<String> = []
        let paths = Tree.files(under: "Sources", "swift")
        for path in paths {
            let text = try Tree.text(path).replacing(/\/\/[^\n]*/, with: "")
            let declarations = text.matches(
                of: /\b(?:class|struct|enum|protocol|func|typealias|var|let|case)\s+`?(\w+)/)
            let names = Set(declarations.map { String($0.1) })
            declared[path] = text.contains("@main") ? nil : names
            let words = text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            used.formUnion(Set(words.map(String.init)).subtracting(names))
        }
        for (path, names) in declared {
            #expect(
                names.contains { $0.count > 2 && used.contains($0) }, "\(path): no other file uses what it declares")
        }
        let modules = try Tree.text("Sources/LuaModules/modules.c")
        for path in Tree.files(under: "Sources/LuaModules", "lua") {
            let name = path.dropFirst("Sources/LuaModules/".count)
            #expect(modules.contains("#embed \"\(name)\""), "\(path) is not in modules.c")
        }
    }
}
