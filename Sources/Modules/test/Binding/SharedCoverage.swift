internal import Glibc
internal import Linux
internal import Lua
public import LuaRunLoops

/// The lines that run in a program which a test has started, for `rlhost test --coverage`.
public enum SharedCoverage {
    /// The variable by which programs, and those that they start, find the directory in which they leave what they have counted.
    public static let variable = "RLHOST_TEST_COVERAGE"

    /// Counts from now on, if anybody has asked for that.
    public static func begin(_ host: LuaHost) {
        guard let directory = ProcessEnvironment[variable], !directory.isEmpty else { return }
        host.part(CoverageNote.self).directory = directory
        LuaHost.countLines(true, host.stack, coroutine: 1)
    }
}

/// Writes down what was counted when a program ends.
final class CoverageNote: HostPart {
    var directory: String?
    /// Paths of chunks are relative to where the program began.
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
        // Put in place when it is whole: the test may look at any moment. Without its counts, the report says too little.
        let name = "\(directory)/\(getpid())-\(UInt32.random(in: .min ... .max)).lua"
        do throws(SystemError) { try OutputFile.write(text, to: name, followsLinks: false) } catch {}
    }
}
