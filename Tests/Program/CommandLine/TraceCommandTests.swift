import Foundation
import TestSupport
import Testing

@Suite("rlhost trace", .timed)
struct TraceCommandTests {
    private static let recording = """
        [{"ph":"M","pid":1,"name":"process_name","args":{"name":"app.lua"}},
        {"ph":"B","pid":1,"tid":0,"ts":1.5,"cat":"timer","name":"tick"},{"ph":"E","pid":1,"tid":0,"ts":2}]
        """

    @Test("converts a recording into a page, and between all forms")
    func forms() throws {
        let run = try Binary.shell(
            """
            cd $(mktemp -d); trap 'rm -r "$PWD"' EXIT; cat > a.json <<'END'
            \(Self.recording)
            END
            rlhost=\(Binary.path)
            $rlhost trace a.json -o b.pftrace && $rlhost trace -oc.json b.pftrace && $rlhost trace c.json -o d.html || exit
            grep -c '^<!doctype html>' d.html; tail -n +2 c.json; stat -c %a d.html
            """)
        #expect(
            run.output == """
                1
                {"ph":"M","pid":1,"name":"rlhost_format","args":{"format":2}},
                {"ph":"M","pid":1,"name":"process_name","args":{"name":"app.lua"}},
                {"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"main"}},
                {"ph":"B","pid":1,"tid":0,"ts":1.500,"cat":"timer","name":"tick"},
                {"ph":"E","pid":1,"tid":0,"ts":2.000},
                {"ph":"M","pid":1,"name":"rlhost","args":{"dropped":0,"lost":0}}
                ]
                600

                """, "\(run)")
    }

    @Test(
        "wrong use gives an error that names the remedy",
        arguments: [
            (
                [], 64,
                "it needs a process or a recording: rlhost trace PID, rlhost trace FILE.pftrace -o FILE.html"
            ),
            (["1", "soon"], 64, "after the process, only a number of seconds is allowed, not 'soon'"),
            (["1", "-o", "x.txt"], 64, "a recording's file ends in .html, .pftrace or .json, not as 'x.txt'"),
            (["a.json"], 64, "it needs a file to write: rlhost trace a.json -o FILE.html"),
            (["a.json", "-o"], 64, "'-o' needs a file"),
            (["a.json", "-o", "b.txt"], 64, "a recording's file ends in .html, .pftrace or .json, not as 'b.txt'"),
            (["a.json", "-o", "a.json"], 64, "'a.json' cannot be read and written at once; name another file with -o"),
            (["--page"], 64, "unknown option '--page'; 'rlhost trace --help' lists them"),
            (["/nowhere.json", "-o", "b.html"], 1, "ENOENT: no such file or directory (/nowhere.json)"),
        ] as [([String], Int32, String)])
    func misuse(arguments: [String], status: Int32, message: String) throws {
        let run = try Binary.run(["trace"] + arguments)
        #expect(run.status == status && run.output.isEmpty && run.errors == "rlhost: trace: \(message)\n", "\(run)")
    }

    @Test("--help prints the usage")
    func help() throws {
        let run = try Binary.run(["trace", "--help"])
        #expect(run.status == 0 && run.errors.isEmpty && run.output.contains("rlhost trace FILE…"), "\(run)")
    }
}
