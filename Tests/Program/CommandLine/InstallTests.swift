import Foundation
import TestSupport
import Testing

@Suite("Installation", .timed)
struct InstallTests {
    /// A directory with the files that `scripts/install` installs, where the tests' program replaces the release build.
    private func withProject(_ body: (String) throws -> Void) throws {
        try Binary.withDirectory { root in
            // The shell writes this file, not this process: see NeedTests.
            let copy = try Binary.shell(
                """
                cp -r \(["scripts", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"].joined(separator: " ")) \(root)
                mkdir -p \(root)/Sources/Program/C \(root)/.build/release
                cp -r Sources/Program/C/shell \(root)/Sources/Program/C; ln -s \(Binary.path) \(root)/.build/release/rlhost
                """, directory: Binary.repository)
            #expect(copy.status == 0, "\(copy.errors)")
            try body(root)
        }
    }

    @Test("scripts/install puts program, manual, documents and annotations below the prefix, and nothing elsewhere")
    func install() throws {
        try withProject { root in
            let run = try Binary.shell(
                "scripts/install /usr/local", environment: ["DESTDIR": root + "/to"], directory: root)
            #expect(run.status == 0, "\(run.errors)")
            let found = try Binary.shell("find . -type f -o -type l | sort", directory: root + "/to")
            let documents = try Binary.shell(
                "find docs CHANGELOG.md CONTRIBUTING.md LICENSE README.md -type f ! -name rlhost.1", directory: root
            ).output.split(separator: "\n").map { path in
                path.hasPrefix("docs/lua/") ? "rlhost/lua/library/" + path.dropFirst(9) : "doc/rlhost/" + path
            }
            #expect(documents.count > 50, "the annotations, documents and examples are in the project")
            let others =
                ["bin/rlhost", "share/man/man1/rlhost.1", "share/doc/rlhost/docs/lua", "share/rlhost/lua/config.json"]
                + ["share/bash-completion/completions/rlhost", "share/zsh/site-functions/_rlhost"]
                + ["share/fish/vendor_completions.d/rlhost.fish"]
            #expect(
                Set(found.output.split(separator: "\n").map(String.init))
                    == Set((documents.map { "share/" + $0 } + others).map { "./usr/local/" + $0 }))
            #expect(try Binary.run(["-e", "print(1)"], program: root + "/to/usr/local/bin/rlhost").output == "1\n")
        }
    }

    @Test("scripts/install strips the program, and installs its debug information if asked")
    func debug() throws {
        try withProject { root in
            let run = try Binary.shell(
                """
                scripts/install --debug $PWD/to >/dev/null && file() { readelf -SW to/bin/$1 | grep -c "\\.$2 "; }
                file rlhost debug_info; file rlhost gnu_debuglink; file rlhost.debug debug_info
                """, directory: root)
            #expect(run.output == "0\n1\n1\n", "\(run)")
        }
    }

    @Test("every link of an installed document leads to an installed file")
    func links() throws {
        try withProject { root in
            let prefix = root + "/to"
            #expect(try Binary.shell("scripts/install \(prefix)", directory: root).status == 0)
            let documents = try Binary.shell("find \(prefix) -name '*.md'").output.split(separator: "\n")
            var links = 0
            for document in documents {
                let folder = URL(filePath: String(document)).deletingLastPathComponent()
                for match in try String(contentsOfFile: String(document), encoding: .utf8)
                    .matches(of: /\]\(([^()\s#:]+)(#[^()\s]*)?\)/)
                {
                    let target = folder.appending(path: String(match.1)).standardized.path
                    links += 1
                    #expect(target.hasPrefix(prefix), "\(document) leads out of the prefix: \(match.1)")
                    #expect(FileManager.default.fileExists(atPath: target), "\(document) has a dead link: \(match.1)")
                }
            }
            #expect(links > 50, "the links of the documents are found")
        }
    }

    @Test("scripts/install reports what is missing, and its usage")
    func misuse() throws {
        try withProject { root in
            #expect(
                try Binary.shell("scripts/install 2>&1", directory: root).output.hasPrefix(
                    "usage: scripts/install [--debug] [--program FILE] PREFIX"))
            let run = try Binary.shell("rm .build/release/rlhost; scripts/install x 2>&1", directory: root)
            #expect(run.status == 1 && run.output.contains("run scripts/setup first"))
            #expect(!FileManager.default.fileExists(atPath: root + "/x"))
        }
    }

    @Test("the manual page is well-formed")
    func manual() throws {
        let run = try Binary.shell(
            "LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings=w -l docs/rlhost.1 2>&1 >/dev/null", directory: Binary.repository
        )
        #expect(run.status == 0 && run.output.isEmpty, "\(run.output)")
    }
}
