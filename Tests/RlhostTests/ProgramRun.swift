import Foundation

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

    /// Runs a shell command in which `rlhost` means the one under test.
    static func shell(
        _ command: String, in directory: URL = root, environment: [String: String] = [:]
    ) async throws -> ProgramRun {
        let definition = "rlhost() { \"$RLHOST_UNDER_TEST\" \"$@\"; }\n"
        return try await program(
            ["bash", "-c", definition + command], in: directory,
            environment: environment.merging(["RLHOST_UNDER_TEST": rlhost]) { given, _ in given })
    }

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

        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["timeout", "-k", "2", "\(seconds)"] + command
        process.currentDirectoryURL = directory
        var variables = ProcessInfo.processInfo.environment
        // What the developer has set must not change what the tests see.
        for name in ["LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_CPATH", "LUA_PATH_5_4", "LUA_CPATH_5_4"] {
            variables[name] = nil
        }
        process.environment = variables.merging(environment) { _, given in given }
        process.standardInput = try FileHandle(forReadingFrom: inputURL)
        process.standardOutput = try FileHandle(forWritingTo: outputURL)
        process.standardError = try FileHandle(forWritingTo: errorsURL)
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in continuation.resume() }
            do { try process.run() } catch { continuation.resume(throwing: error) }
        }
        let killed = process.terminationReason == .uncaughtSignal
        return ProgramRun(
            status: killed ? 128 + process.terminationStatus : process.terminationStatus,
            output: String(decoding: try Data(contentsOf: outputURL), as: UTF8.self),
            errors: String(decoding: try Data(contentsOf: errorsURL), as: UTF8.self))
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
