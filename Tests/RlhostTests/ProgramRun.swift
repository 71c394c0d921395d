import Foundation
import Glibc

/// A program that was run to its end, and what it said.
struct ProgramRun: Sendable {
    /// As a shell has it: 128 and the signal for one that was killed; 124 for one that took too long.
    let status: Int32
    let output: String
    let errors: String

    static let root: URL = {
        // Tests/RlhostTests/ProgramRun.swift
        let file = URL(filePath: #filePath)
        return file.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    }()

    /// The rlhost under test: the debug build, or what the environment variable RLHOST names.
    static let rlhost =
        ProcessInfo.processInfo.environment["RLHOST"] ?? root.appending(path: ".build/debug/rlhost").path

    /// Runs `rlhost` with these arguments.
    static func rlhost(
        _ arguments: String..., input: String = "", in directory: URL = root, environment: [String: String] = [:]
    ) async throws -> ProgramRun {
        try await program([rlhost] + arguments, input: input, in: directory, environment: environment)
    }

    /// Runs a shell script in which `rlhost` is the one under test.
    static func shell(
        _ script: String, in directory: URL = root, environment: [String: String] = [:]
    ) async throws -> ProgramRun {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        return try await program(
            ["bash", "-c", script], in: directory,
            environment: environment.merging(["PATH": "\(shellFolder["bin"].path):\(path)"]) { given, _ in given })
    }

    private static let shellFolder: TemporaryFolder = {
        do {
            let folder = try TemporaryFolder()
            try FileManager.default.createDirectory(at: folder["bin"], withIntermediateDirectories: false)
            try FileManager.default.createSymbolicLink(
                at: folder["bin"].appending(path: "rlhost"), withDestinationURL: URL(filePath: rlhost))
            return folder
        } catch { preconditionFailure("no temporary folder: \(error)") }
    }()

    /// - Parameters:
    ///   - command: the program, looked up in the PATH, and its arguments.
    ///   - seconds: after which it is killed.
    static func program(
        _ command: [String], input: String = "", in directory: URL = root, environment: [String: String] = [:],
        seconds: Int = 30
    ) async throws -> ProgramRun {
        // Files, not pipes: nobody has to read while it runs, and so no thread waits.
        let folder = try TemporaryFolder()
        let (inputURL, outputURL, errorsURL) = (folder["input"], folder["output"], folder["errors"])
        try Data(input.utf8).write(to: inputURL)
        for url in [outputURL, errorsURL] { try Data().write(to: url) }

        var variables = ProcessInfo.processInfo.environment
        // What the developer has set must not change what the tests see.
        for name in ["LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_CPATH", "LUA_PATH_5_4", "LUA_CPATH_5_4"] {
            variables[name] = nil
        }
        variables.merge(environment) { _, given in given }
        let process = try spawn(
            ["env", "-C", directory.path, "timeout", "-k", "2", "\(seconds)"] + command, variables,
            files: [inputURL.path, outputURL.path, errorsURL.path])
        let status = await withCheckedContinuation { continuation in
            // A thread of its own: those of the tests must not wait.
            Thread.detachNewThread {
                var status: Int32 = 0
                while waitpid(process, &status, 0) < 0, errno == EINTR {}
                continuation.resume(returning: status)
            }
        }
        let signal = status & 0x7f
        return ProgramRun(
            status: signal != 0 ? 128 + signal : status >> 8 & 0xff,
            output: String(decoding: try Data(contentsOf: outputURL), as: UTF8.self),
            errors: String(decoding: try Data(contentsOf: errorsURL), as: UTF8.self))
    }

    /// Foundation's Process hands the signal mask of the test runner's threads down, with which no program can be interrupted.
    private static func spawn(
        _ command: [String], _ environment: [String: String], files: [String]
    ) throws -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGINT, SIGTERM, SIGQUIT, SIGPIPE] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (fd, path) in files.enumerated() {
            posix_spawn_file_actions_addopen(&actions, Int32(fd), path, fd == 0 ? O_RDONLY : O_WRONLY | O_APPEND, 0)
        }
        let arguments = command.map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var process: pid_t = 0
        let error = posix_spawnp(&process, command[0], &actions, &attributes, arguments, variables)
        guard error == 0 else { throw POSIXError(.init(rawValue: error) ?? .EINVAL) }
        return process
    }
}

/// A folder that is removed with its last reference.
final class TemporaryFolder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "rlhost-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    subscript(name: String) -> URL { url.appending(path: name) }
}
