/// Text that breaks a rule, and the line where scripts/tidy has to find it.
struct Violation {
    let rule, path, text: String
    let line: Int
    let replaces: Bool

    init(_ rule: String, _ path: String, _ text: String, line: Int = 1, replaces: Bool = false) {
        (self.rule, self.path, self.text, self.line, self.replaces) = (rule, path, text, line, replaces)
    }

    static let loop = "Sources/Engine/Swift/Loop.swift"
    static let part = "Sources/Engine/Lua/part.lua"

    static let all = [
        Violation("imports", "Sources/Engine/Extra/Extra.swift", "import App\n", line: 4),
        Violation("picture", "docs/architecture.md", "\n```\nGhost → Base\n  a ghost\n```\n", line: 13),
        Violation("tree", "docs/architecture.md", "\n```\nCBase →\n  once more Sources/C\n```\n", line: 13),
        Violation("tree", "Sources/Lost/lost.c", "int lost;\n"),
        Violation("tree", "Tests/Ghost/GhostTests.swift", "let ghost = 1\n"),
        Violation("sealed", loop, "let x = lua_close\n", line: 4),
        Violation("circles", "Sources/Engine/C/one.c", "int three(void) {\n  return two();\n}\n"),
        Violation("dead", "Sources/Engine/Swift/Ghost.swift", "struct Ghost {}\n"),
        Violation("modules", "Sources/Engine/Lua/ghost.lua", "return 1\n"),
        Violation("force", loop, "let x = loop!.extra\n", line: 4),
        Violation("test-names", "Tests/Engine/LoopTests.swift", "@Test func nameless() {}\n", line: 2),
        Violation("foundation", loop, "import Foundation\n", line: 4),
        Violation("concurrency", loop, "@MainActor struct Main {}\n", line: 4),
        Violation("concurrency", "Sources/App/main.swift", "let app = App()\n"),
        Violation("names", "Sources/Engine/Swift/Loop.Ghost.swift", "extension Loop {}\n"),
        Violation("whitespace", loop, "let x = 1~\n", line: 4),
        Violation("whitespace", "LICENSE", "no line break at the end"),
        Violation("headers", "Sources/Engine/C/include/bare.h", "// Without a guard.\n"),
        Violation("headers", "Sources/Engine/C/include/mute.h", "#pragma once\n"),
        Violation("links", "README.md", "[nowhere](docs/nowhere.md)\n", line: 9),
        Violation("links", "README.md", "[ghost](docs/architecture.md#ghost)\n", line: 9),
        Violation("titles", "docs/architecture.md", "\n# Second\n"),
        Violation("reachable", "docs/ghost.md", "# Ghost\n"),
        Violation("reachable", "README.md", String(repeating: "\nA line.\n", count: 60)),
        Violation("deprecated", "docs/lua/part.lua", "---@deprecated part.more\nfunction part.one() end\n", line: 2),
        Violation("fences", "docs/architecture.md", "\n```lua fragment\nx = 1\n```\n", line: 12),
        Violation("versions", "Sources/Engine/C/include/CBase.h", "#define RLHOST_VERSION \"9.9.9\"\n", line: 4),
        Violation("changelog", "CHANGELOG.md", "- Add a feature.\n", line: 8),
        Violation("changelog", "CHANGELOG.md", "- The feature is new,\n  and goes on.\n", line: 8),
        Violation("changelog", "CHANGELOG.md", "- The feature works; it~was broken.\n", line: 8),
        Violation("changelog", "CHANGELOG.md", "\n### Removed\n", line: 9),
        Violation("changelog", "CHANGELOG.md", "- A" + String(repeating: " long", count: 40) + " entry.\n", line: 8),
        Violation("places", "docs/architecture.md", "\nSee /ho^me/somebody.\n", line: 12),
        Violation("places", "docs/architecture.md", "\nFrom deb.deb^ian.org.\n", line: 12),
        Violation("top-level", "stray.txt", "A stray file.\n"),
        Violation("commands", "README.md", "# Small\n\n```sh\nmake\n```\n", replaces: true),
        Violation("commands", ".ci/run", "#!/bin/sh\n# Does nothing.\n", replaces: true),
        Violation("scripts", "scripts/ghost", "echo 1\n"),
        Violation("language", loop, "// The size~is^~told by the kernel.\n", line: 4),
        Violation("language", part, "-- Waits, and reads\n-- it ane^w.\n", line: 5),
        Violation("language", part, "local text = \"there are so~many of them\"\n", line: 4),
        Violation("language", "docs/architecture.md", "\n- A name.\n- Tho^se that wait.\n", line: 13),
        Violation("language", "Sources/Engine/C/two.c", "/* O^f two, the first. */\n", line: 6),
        Violation("functions", loop, "func long() {\n" + String(repeating: "    step()\n", count: 69) + "}\n", line: 4),
        Violation(
            "functions", part, "local function f()\n" + String(repeating: "  f()\n", count: 69) + "end\n", line: 4),
        Violation("functions", part, String(repeating: "step()\n", count: 598)),
        Violation(
            "functions", "Sources/Engine/C/two.c",
            "int long_one(\n    int x) {\n" + String(repeating: "  x++;\n", count: 68) + "}\n", line: 6),
        Violation("numbers", part, "local handler = functions[5]\n", line: 4),
        Violation("numbers", loop, "let x = part.call(stream, 3)\n", line: 4),
        Violation("probe", loop, "let x = loop.recorder\n", line: 4),
        Violation("form", loop, "// " + String(repeating: "long ", count: 24) + "\n", line: 4),
        Violation("form", part, "if a then\n    b()\nend\n", line: 5),
        Violation("form", part, "local x = a+b\n", line: 4),
        Violation("form", part, "local x = f(a,b)\n", line: 4),
        Violation("form", part, "local a, b, c, d, e\n", line: 4),
        Violation("form", part, "local a = 1;\n", line: 4),
    ]

    /// All violations, in rounds in which each file is changed once.
    static let rounds: [[Violation]] = {
        var rounds: [[Violation]] = []
        for violation in all {
            let free = rounds.firstIndex { round in !round.contains { $0.path == violation.path } }
            if let free { rounds[free].append(violation) } else { rounds.append([violation]) }
        }
        return rounds
    }()
}
