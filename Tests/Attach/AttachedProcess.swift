import Foundation
import TestSupport
import Glibc

/// A program that can be attached to, with its own directory for sockets, and the commands that attach to it.
final class AttachedProcess {
    let process: Binary.Process
    let folder: PromptFolder
    var pid: pid_t { process.pid }

    /// A script that counts in the global `counter`. A call of `busy` keeps it busy.
    static let script = """
        local rl = require "runloop"
        counter = 0
        rl.every(0.01, function() counter = counter + 1 end)
        function busy(s) local e = rl.time() + s while rl.time() < e do end end
        function dump(x) print("dump", x) io.write("write ", x, "\\n") io.stdout:write("stdout\\n") end
        print "ready" io.flush()
        """

    /// - Parameter folder: shared with other processes that are to find each other.
    init(
        _ options: [String] = ["--attach"], _ script: String = AttachedProcess.script, folder: PromptFolder? = nil
    ) throws {
        self.folder = try folder ?? Self.makeFolder()
        // The script is a file, because with -e there would be a global `rl`.
        let path = "\(self.folder.url.path)/target.lua"
        try Data(script.utf8).write(to: URL(filePath: path))
        process = try Binary.Process(
            options + [path], environment: ["XDG_RUNTIME_DIR": self.folder.url.path, "TZ": "UTC"])
        guard process.waitForOutput("ready") else {
            throw Binary.Failure(description: "it does not begin: \(process.errorText)")
        }
    }

    deinit { process.signal(SIGKILL) }

    /// Waits until the process computes or sleeps.
    func settle() { process.settle() }

    static func makeFolder() throws -> PromptFolder {
        let folder = try PromptFolder()
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.url.path)
        return folder
    }

    var environment: [String: String] { ["XDG_RUNTIME_DIR": folder.url.path] }

    /// `rlhost attach PID …`.
    func attach(_ arguments: String..., input: String? = nil, timeout: Double = 60) throws -> Binary.Result {
        try Binary.run(["attach", "\(pid)"] + arguments, input: input, environment: environment, timeout: timeout)
    }

    func start(_ arguments: String...) throws -> Binary.Process {
        try Binary.Process(
            ["attach", "\(pid)"] + arguments.map(Binary.interruptible), environment: environment)
    }

    /// A prompt in the process, in a pseudo-terminal.
    func prompt(columns: Int = 80, rows: Int = 24, environment: [String: String] = [:]) throws -> PromptSession {
        try PromptSession(
            ["attach", "\(pid)"], columns: columns, rows: rows,
            environment: ["XDG_RUNTIME_DIR": folder.url.path, "RLHOST_HISTORY": "\(folder.url.path)/history"]
                .merging(environment) { $1 })
    }

    /// The results of `code`, as text.
    func value(_ code: String) throws -> String {
        let run = try attach("-e", code)
        guard run.status == 0 else { throw Binary.Failure(description: "\(code): \(run)") }
        return String(run.output.dropLast())
    }

    /// The names of existing sockets and locks.
    var files: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: "\(folder.url.path)/rlhost").sorted()) ?? []
    }

    /// The number of open descriptors, once it has stayed the same for a while: a client that has received its answer
    /// may not have exited yet.
    var settledDescriptors: Int {
        var (last, times) = (-1, 0)
        for _ in 0..<200 where times < 20 {
            let now = descriptors
            times = now == last ? times + 1 : 0
            last = now
            usleep(10_000)
        }
        return last
    }

    /// How many descriptors the process has open.
    var descriptors: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? -1 }
}
