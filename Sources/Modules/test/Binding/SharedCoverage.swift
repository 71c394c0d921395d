internal import Glibc
internal import Linux
internal import Lua
public import LuaRunLoops

/// Counts the lines that run in a program which a test has started, for `rlhost test --coverage`.
public enum SharedCoverage {
    /// The environment variable with the directory in which programs, and those that they start, leave their counts.
    public static let variable = "RLHOST_TEST_COVERAGE"

    /// Begins to count if the variable is set.
    public static func begin(_ host: LuaHost) {
        guard let directory = ProcessEnvironment[variable], !directory.isEmpty else { return }
        host.part(CoverageNote.self).directory = directory
        LuaHost.countLines(true, host.stack, coroutine: 1)
    }
}

/// Writes the counts to a file when a program ends.
final class CoverageNote: HostPart {
    var directory: String?
    /// The directory in which the program began; the paths of chunks are relative to it.
    private let origin: [UInt8]

    required init(_ host: LuaHost) {
        origin = System.realPath(of: ".")?.anyBytes ?? []
        super.init(host)
    }

    override func willClose() { write() }
    override func willExit() { write() }

    private func write() {
        guard let directory else { return }
        let counts = LuaHost.takeLines()
        guard !counts.isEmpty else { return }
        var text: [UInt8] = Array("return {".utf8)
        for (path, lines) in counts {
            text += Array("[\"".utf8)
            path.withAnyBytes { bytes in
                let whole =
                    bytes.first == UInt8(ascii: "/") ? Array(bytes) : origin + [UInt8(ascii: "/")] + Array(bytes)
                for byte in whole { text += Array("\\\(byte / 100)\(byte / 10 % 10)\(byte % 10)".utf8) }
            }
            text += Array("\"]={".utf8)
            for (what, count) in lines { text += Array("[\(what)]=\(count),".utf8) }
            text += Array("},".utf8)
        }
        text += Array("}".utf8)
        // The file appears only when it is complete, because the test may read it at any moment. If the file cannot be
        // written, the report lacks the counts of this program.
        let name = "\(directory)/\(getpid())-\(UInt32.random(in: .min ... .max)).lua"
        do throws(SystemError) { try OutputFile.write(text, to: name, followsLinks: false) } catch {}
    }
}
