import Foundation
import TestSupport
import Testing

/// `scripts/need`, with false package tools that install nothing.
@Suite("Installing what is needed", .timed)
struct NeedTests {
    /// - Parameter user: the number that `id` prints.
    private func need(
        _ packages: String, user: Int, hasSudo: Bool = true, isDebian: Bool = true
    ) throws -> Binary.Result {
        try Binary.withDirectory { directory in
            var programs = [
                "dpkg-query": #"[ "$4" = here ] && echo installed"#,
                "apt-get": #"echo "apt-get $*""#,
                "id": "echo \(user)",
            ]
            if !isDebian {
                programs["dpkg-query"] = nil
                programs["apt-get"] = nil
            }
            if hasSudo { programs["sudo"] = #"echo "sudo:"; exec "$@""# }
            // The shell writes these programs, not this process. A program that another test starts at the moment could
            // inherit the descriptor of a file that is being written, and such a file cannot be run.
            var script = "write() { printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\"; chmod +x \"$1\"; }\n"
            for (name, text) in programs { script += "write \(name) '\(text)'\n" }
            // Besides these, PATH has only the programs that the script itself uses.
            script += "for p in env bash; do ln -s $(command -v $p) $p; done\n"
            script += "PATH=$PWD \(Binary.repository)/scripts/need \(packages) 2>&1\n"
            return try Binary.shell(script, directory: directory)
        }
    }

    @Test("scripts/need does nothing, for any user, if all packages are installed")
    func nothing() throws {
        let run = try need("here", user: 1000, hasSudo: false)
        #expect(run.status == 0 && run.output.isEmpty, "\(run.output)")
    }

    @Test("scripts/need lists the packages if there is no package manager, with status 0")
    func elsewhere() throws {
        let run = try need("lua-one lua-two", user: 1000, isDebian: false)
        #expect(run.status == 0, "\(run.output)")
        #expect(
            run.output
                == "need: this is not a Debian system; install these packages, or those that replace them here: "
                + "lua-one lua-two\n"
        )
    }

    @Test("scripts/need installs missing packages only")
    func installs() throws {
        let run = try need("here lua-one lua-two", user: 0)
        #expect(
            run.output == """
                installing: lua-one lua-two
                apt-get update -q
                apt-get install -q -y --no-install-recommends lua-one lua-two

                """)
        #expect(run.status == 0)
    }

    @Test("scripts/need uses sudo without root, or names the remedy")
    func sudo() throws {
        let run = try need("lua-one", user: 1000)
        #expect(
            run.output.contains("sudo:\napt-get update") && run.output.contains("sudo:\napt-get install"),
            "\(run.output)")
        let refused = try need("lua-one", user: 1000, hasSudo: false)
        #expect(refused.status == 1)
        #expect(refused.output == "need: run this as root: apt-get install lua-one\n")
    }
}
