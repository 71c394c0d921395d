import Foundation
import Testing

@Suite("Architecture")
struct ArchitectureTests {
    /// Which rooms know which. docs/architecture.md has the picture.
    static let allowed: [String: Set<String>] = [
        "Linux": ["CLinux", "Glibc"],
        "RunLoops": ["Linux", "CLinux", "Synchronization", "Glibc"],
        "Lua": ["CLua", "CLuaSupport", "Synchronization", "Glibc"],
        "LuaRunLoops": ["RunLoops", "Lua", "Linux", "CLua", "CLuaSupport", "Synchronization", "Glibc"],
        "LuaHTTP": ["LuaRunLoops", "Lua", "CJSON"],
        "Streams": ["RunLoops", "Linux", "CStreams", "Glibc"],
        "LuaStreams": ["LuaRunLoops", "Lua", "Streams", "RunLoops"],
        "LineEditor": ["Linux", "Glibc"],
        "rlhost": [
            "LuaHTTP", "LuaStreams", "LuaRunLoops", "Lua", "RunLoops", "LineEditor", "Linux", "Synchronization",
            "Glibc",
        ],
    ]

    @Test("each target imports only what is below it", arguments: Tree.files(under: "Sources", "swift"))
    func imports(path: String) throws {
        let target = String(path.split(separator: "/")[1])
        let allowed = try #require(
            Self.allowed[target],
            "Sources/\(target) is new: say in ArchitectureTests.swift and docs/architecture.md what it may know")
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

    @Test("the targets of Package.swift depend on each other as the rule says")
    func dependencies() throws {
        let package = try Tree.text("Package.swift")
        let targets = package.matches(
            of: /\.(?:target|executableTarget)\(\s*name: "(\w+)"(?:, dependencies: \[([^\]]*)\])?/)
        #expect(targets.count >= 5, "Package.swift has a form that this test does not know")
        for target in targets {
            guard let allowed = Self.allowed[String(target.1)] else { continue }  // C targets
            for dependency in (target.2 ?? "").matches(of: /"(\w+)"/) {
                #expect(
                    allowed.contains(String(dependency.1)),
                    "Package.swift lets \(target.1) depend on \(dependency.1): what is not linked cannot be imported by mistake"
                )
            }
        }
    }

    @Test("every room is in the documentation's picture")
    func picture() throws {
        let text = try Tree.text("docs/architecture.md")
        for target in Set(Tree.files(under: "Sources").map { String($0.split(separator: "/")[1]) }) {
            #expect(
                text.contains(target),
                "docs/architecture.md does not mention \(target): a reader would not find the way")
        }
    }
}
