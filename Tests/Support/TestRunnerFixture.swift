import Foundation
package import Testing

/// Runs `rlhost test` on files that a test writes, and returns its output.
package enum TestRunnerFixture {
    package struct Transcript {
        package var output: String
        package var errors: String
        package var status: Int32
        package var seconds: Double
    }

    /// - Parameters:
    ///   - files: The contents by path; files with names like …_test.lua get definitions of `t` and `rl`.
    ///   - arguments: the words after `test`.
    ///   - before: the words before it.
    package static func run(
        _ files: [String: String], _ arguments: [String] = [], before: [String] = [], keepsSeed: Bool = false,
        environment: [String: String] = [:], then: (String) throws -> Void = { _ in }
    ) throws -> Transcript {
        try Binary.withDirectory { directory in
            for (path, text) in files {
                let url = URL(fileURLWithPath: directory).appendingPathComponent(path)
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
                let head = path.hasSuffix("_test.lua") ? "local t, rl = require 'runloop.test', require 'runloop' " : ""
                try (head + text).write(to: url, atomically: true, encoding: .utf8)
            }
            let result = try Binary.run(
                before + ["test"] + arguments, environment: environment, directory: directory)
            try then(directory)
            var output = result.output.replacingMatches(of: #"\((\d+ ms|[\d.]+ s)\)"#, with: "(time)")
            output = output.replacingMatches(of: #" time="[\d.]+""#, with: "")
            output = output.replacingMatches(of: #"descriptor \d+"#, with: "descriptor N")
            if !keepsSeed { output = output.replacingMatches(of: #"\nseed: \d+"#, with: "") }
            return Transcript(output: output, errors: result.errors, status: result.status, seconds: result.seconds)
        }
    }

    /// A report without the times after the names of slow tests.
    package static func withoutSlowness(_ report: String) -> String {
        report.replacingMatches(of: #"(?m)^( *(?:ok|FAIL) .*) \((?:time|\d+ ms|[\d.]+ s)\)$"#, with: "$1")
    }

    /// A file and the expected report of its failures.
    package static func expect(
        _ text: String, _ report: String, _ arguments: [String] = [], status: Int32 = 1,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let transcript = try run(["x_test.lua": Binary.interruptible(text)], arguments)
        // A test that takes a tenth of a second has its time after its name, and on a busy machine any test may take
        // that long.
        #expect(
            withoutSlowness(transcript.output) == withoutSlowness(report + "\n"), sourceLocation: sourceLocation)
        #expect(transcript.errors == "", sourceLocation: sourceLocation)
        #expect(transcript.status == status, sourceLocation: sourceLocation)
    }
}

extension String {
    fileprivate func replacingMatches(of pattern: String, with text: String) -> String {
        replacingOccurrences(of: pattern, with: text, options: .regularExpression)
    }
}
