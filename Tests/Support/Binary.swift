import Foundation

/// Runs the built program, or another one, and captures its output and status.
///
///     let result = try Binary.run(["-e", "print(1)"])
///     #expect(result.output == "1\n" && result.status == 0)
///
/// For a conversation with a running program, see `Binary.Process`.
package enum Binary {
    /// The program under test: the one that the environment variable RLHOST names, or the one that was built with the
    /// tests.
    package static let path: String = {
        if let path = ProcessInfo.processInfo.environment["RLHOST"], !path.isEmpty { return path }
        return built
    }()

    /// The program that was built with the tests. Only a debug build knows the names of private functions.
    package static let built: String = {
        // The tests are in the same directory for each kind of build.
        if let tests = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") {
            let path = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("rlhost").path
            if FileManager.default.isExecutableFile(atPath: path) { return path }
        }
        return repository + "/.build/debug/rlhost"
    }()

    /// The directory that holds Package.swift.
    package static let repository: String = {
        var folder = URL(fileURLWithPath: #filePath)
        repeat {
            folder.deleteLastPathComponent()
        } while folder.path != "/" && !FileManager.default.fileExists(atPath: folder.path + "/Package.swift")
        return folder.path
    }()

    /// lua5.4, whose behaviour is the reference; nil where it is not installed.
    package static let lua: String? = ["/usr/bin/lua5.4", "/usr/local/bin/lua5.4"].first(
        where: FileManager.default.isExecutableFile)

    /// Whether the program and these tests run under ThreadSanitizer, which some tests must know.
    package static let isUnderThreadSanitizer = dlsym(nil, "__tsan_init") != nil
    /// AddressSanitizer keeps freed memory for a while.
    package static let isUnderAddressSanitizer = dlsym(nil, "__asan_init") != nil

    /// Returns Lua code whose busy loops can be interrupted under ThreadSanitizer, which holds signals back until the
    /// code calls the C library.
    package static func interruptible(_ text: String) -> String {
        isUnderThreadSanitizer ? text.replacing("while true do end", with: "while true do local _ = {} end") : text
    }

    /// How a run ended, and its output.
    package struct Result: CustomStringConvertible {
        package var outputBytes: [UInt8] = []
        package var errorBytes: [UInt8] = []
        /// The exit status as a shell reports it: 128 plus the number if a signal ended the program; -1 if the program
        /// took too long.
        package var status: Int32 = -1
        /// The signal that ended it, or nil.
        package var signal: Int32?
        /// The program was killed because it took too long.
        package var timedOut = false
        /// Real seconds from start to end.
        package var seconds = 0.0

        /// Standard output as text, damaged where it is not UTF-8.
        package var output: String { String(decoding: outputBytes, as: UTF8.self) }
        /// Standard error as text.
        package var errors: String { String(decoding: errorBytes, as: UTF8.self) }

        package var description: String {
            let end = timedOut ? "timed out" : signal.map { "signal \($0)" } ?? "status \(status)"
            return "\(end), output \(output.debugDescription), errors \(errors.debugDescription)"
        }
    }

    /// A call of the operating system failed.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
        package init(description: String) { self.description = description }
    }

    /// Runs to the end.
    ///
    /// - Parameters:
    ///   - input: standard input; it is closed after that. nil: /dev/null.
    ///   - environment: added to PATH, HOME and the options of sanitizers; nothing else is inherited.
    ///   - directory: the working directory; the tests' own if nil.
    ///   - name: argument 0.
    ///   - timeout: real seconds after which the program and its children are killed.
    package static func run(
        _ arguments: [String], input: String? = nil, environment: [String: String] = [:], directory: String? = nil,
        program: String = path, name: String = "rlhost", timeout: Double = 60
    ) throws -> Result {
        try run(
            bytes: arguments.map { Array($0.utf8) }, input: input.map { Array($0.utf8) },
            environment: environment.map { Array("\($0)=\($1)".utf8) }, directory: directory, program: program,
            name: name, timeout: timeout)
    }

    /// The same with bytes that need not be UTF-8; `environment` has entries like `NAME=value`.
    package static func run(
        bytes arguments: [[UInt8]], input: [UInt8]? = nil, environment: [[UInt8]] = [], directory: String? = nil,
        program: String = path, name: String = "rlhost", timeout: Double = 60
    ) throws -> Result {
        let process = try Process(
            arguments, environment: environment, directory: directory, program: program, name: name,
            hasInput: input != nil)
        process.write(input ?? [])
        process.closeInput()
        return process.finish(timeout: timeout)
    }

    /// Runs a script of the shell, in which `$RLHOST` is the program under test.
    package static func shell(
        _ script: String, environment: [String: String] = [:], directory: String? = nil, timeout: Double = 60
    ) throws -> Result {
        try run(
            ["-c", script], environment: environment.merging(["RLHOST": path]) { own, _ in own }, directory: directory,
            program: "/bin/sh", name: "sh", timeout: timeout)
    }

    /// A directory for one test's files, removed after it.
    package static func withDirectory<T>(_ body: (String) throws -> T) throws -> T {
        let path = NSTemporaryDirectory() + "/rlhost-tests-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try body(path)
    }
}
