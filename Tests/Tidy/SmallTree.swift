import Foundation
import TestSupport

/// A small tree of files in a temporary directory. The tree keeps all rules of scripts/tidy, and contains a copy of it.
///
/// In texts that break a rule, `~` stands for a blank and `^` for nothing, so that this file itself does not break the
/// rule.
struct SmallTree {
    static let files = [
        "Package.swift": """
        // swift-tools-version: 6.2
        let package = Package(
            name: "small",
            targets: [
                .target(name: "App", dependencies: ["Base"], path: "Sources/App"),
                .target(name: "Base", dependencies: ["CBase"], path: "Sources/Engine", sources: ["Swift", "Extra"]),
                .target(name: "CBase", path: "Sources/Engine/C"),
            ])

        """,
        "docs/architecture.md": """
        # Architecture

        ```
        App    → Base
                 the program Sources/App
        Base   → CBase
                 the engine Sources/Engine/{Swift,Extra}
        CBase  →
                 the system Sources/Engine/C
        ```

        """,
        "README.md": """
        # Small

        ```sh
        scripts/setup
        scripts/test
        ```

        The [picture](docs/architecture.md) shows the targets.

        """,
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n### Added\n\n- The first feature.\n",
        ".ci/run": "#!/bin/sh\n# Continuous integration.\nscripts/test\n",
        "scripts/check": "#!/bin/sh\n# Checks everything.\nscripts/test\n",
        "scripts/setup": "#!/bin/sh\n# Installs what the build needs.\n",
        "scripts/test": "#!/bin/sh\n# Runs the tests.\n",
        "Sources/App/App.swift": "import Base\n\n@main struct App { let loop = Loop(), more = Extra() }\n",
        "Sources/Engine/Swift/Loop.swift": "import CBase\n\npublic struct Loop { let extra: Extra }\n",
        "Sources/Engine/Extra/Extra.swift": "import CBase\n\npublic struct Extra { let loop: Loop }\n",
        "Sources/Engine/C/include/CBase.h": "// The system for Swift.\n#pragma once\nint one(void);\n",
        "Sources/Engine/C/one.c": "#include \"CBase.h\"\n\nint one(void) {\n  return 1;\n}\n",
        "Sources/Engine/C/two.c": "#include \"CBase.h\"\n\nint two(void) {\n  return one();\n}\n",
        "Sources/Engine/C/modules.c": "const char part[] = {\n#embed \"../Lua/part.lua\"\n};\n",
        "Sources/Engine/Lua/part.lua": "return function(a, b)\n  return a + b\nend\n",
        "Tests/Engine/LoopTests.swift": "@Test(\"a loop has an extra\") func extra() {}\n",
    ]

    let folder: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.path + "/small-\(UUID().uuidString)"
        for (path, text) in Self.files { try write(text, to: path) }
        for script in ["scripts/tidy", "scripts/links", "scripts/tidy.d/deprecated"] {
            try write(String(contentsOfFile: "\(Binary.repository)/\(script)", encoding: .utf8), to: script)
        }
    }

    func remove() { try? FileManager.default.removeItem(atPath: folder) }

    func write(_ text: String, to path: String) throws {
        let file = folder + "/" + path
        let parent = URL(filePath: file).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(filePath: file))
        let isScript = path.hasPrefix("scripts/") || path == ".ci/run"
        try FileManager.default.setAttributes([.posixPermissions: isScript ? 0o755 : 0o644], ofItemAtPath: file)
    }

    /// Appends the text to the file, or replaces the file's text. Makes the file if it does not exist.
    func plant(_ text: String, in path: String, replaces: Bool = false) throws {
        let plain = text.replacing("~", with: " ").replacing("^", with: "")
        try write((replaces ? "" : Self.files[path] ?? "") + plain, to: path)
    }

    /// Runs its scripts/tidy.
    func tidy(_ arguments: [String]) throws -> Binary.Result {
        // The interpreter runs the script: a process that another test has just started may still have the script open
        // for writing.
        try Binary.run(
            ["python3", folder + "/scripts/tidy"] + arguments, directory: "/", program: "/usr/bin/env", name: "env",
            timeout: 600)
    }

    /// Returns the findings, except those in the copy of scripts/tidy.
    func findings() throws -> [String] {
        let run = try tidy([])
        return (run.output + run.errors).split(separator: "\n").map(String.init)
            .filter { !$0.hasPrefix("scripts/tidy") && !$0.hasPrefix("scripts/links:") }
    }
}
