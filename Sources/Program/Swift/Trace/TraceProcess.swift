import Glibc
import Linux
internal import Lua
import LuaPrompt
import LuaRunLoops

/// `rlhost trace PID|NAME`: makes a running process write a recording of its last moments, or of the next seconds.
struct TraceProcess {
    let target: String
    /// nil for the last moments.
    var seconds: Double?
    var output: String?

    /// Returns the exit status.
    func run() throws(Program.Refusal) -> Int32 {
        let process = try AttachClientTarget.find(target)
        let connection = try AttachClientConnection(process)
        let path = absolute(output ?? "\(process.name ?? "rlhost")-\(process.process).html")
        guard let seconds else { return try dump(connection, path) }
        let before = Self.lastChange(path)
        let status = AttachClientRunner(connection).run([Self.code(path, seconds)])
        if status == 0 {
            Output.write("\(path)\n", to: 1)
        } else if let change = Self.lastChange(path), change != before {
            // The process has ended, or the recording was interrupted.
            Program.report("trace: \(path) has the recording up to then")
        }
        return status
    }

    /// The largest number of seconds to wait for the file.
    private static let patience = 60.0

    /// Requests a dump. The thread of the process's port writes the file, since the loop may be blocked by the very
    /// callback that the user is looking for.
    private func dump(_ connection: AttachClientConnection, _ path: String) throws(Program.Refusal) -> Int32 {
        let answer = connection.question(.dump, path, seconds: Self.patience)
        let process = connection.target.text
        let isLost = connection.isLost
        connection.close()
        guard let answer else {
            let reason = isLost ? "has ended" : "has not written the recording within \(Int(Self.patience)) s"
            throw .init(message: "\(process) \(reason)")
        }
        let remark = String(answer.unicodeScalars.dropFirst())
        guard answer.utf8.first == UInt8(ascii: "+") else { throw .init(message: remark, status: 1) }
        if !remark.isEmpty { Program.report("trace: \(remark)") }
        Output.write("\(path)\n", to: 1)
        return 0
    }

    /// Returns nil if there is no such file.
    private static func lastChange(_ path: String) -> Int64? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    }

    /// Makes a path absolute: the process writes the file, and may have another working directory.
    private func absolute(_ path: String) -> String {
        guard path.utf8.first != UInt8(ascii: "/"), let here = System.realPath(of: ".") else { return path }
        return "\(here)/\(path)"
    }

    /// Returns the Lua code that runs in the process. The recording ends when this code ends for any reason.
    private static func code(_ path: String, _ seconds: Double) -> String {
        let text = "\"" + path.utf8.map { "\\x" + hex($0 >> 4) + hex($0 & 15) }.joined() + "\""
        // Raise an error value with a description: it is shown without a traceback, which would only show this code.
        return """
            do
              local function check(ok, e)
                if not ok then error(setmetatable({}, { __tostring = function() return "trace: " .. e end })) end
              end
              local rl = require "runloop"
              check(rl.trace.start(\(text)))
              local _ <close> = setmetatable({}, { __close = function() rl.trace.stop() end })
              rl.sleep(\(seconds))
            end
            """
    }

    private static func hex(_ digit: UInt8) -> String { String(digit, radix: 16) }
}
