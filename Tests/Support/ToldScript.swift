import Foundation
import Testing

/// A script with its expected output at its end:
///
///     --[[ expected:
///     the first line
///     ]]
package enum ToldScript {
    /// The names of the scripts in a folder of the repository.
    package static func all(in folder: String, prefix: String = "") -> [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: Binary.repository + "/" + (folder))
        return (names ?? []).filter { $0.hasPrefix(prefix) && $0.hasSuffix(".lua") }.sorted()
    }

    /// Runs a script, and compares. Any other text on standard error fails the test.
    package static func check(_ path: String, seconds: Int = 60) throws {
        let text = try String(contentsOf: URL(filePath: Binary.repository + "/" + (path)), encoding: .utf8)
        let parts = text.components(separatedBy: "\n--[[ expected:\n")
        #expect(parts.count == 2, "\(path): a script ends with one comment \"--[[ expected:\" and what it prints")
        guard let block = parts.last, parts.count == 2 else { return }
        #expect(block.hasSuffix("\n]]\n"), "\(path): after what it prints come a line with ]] and the end")
        // Names of message ports belong to the user: each run has its own folder for them.
        let run = try Binary.withDirectory { folder in
            try Binary.run(
                [path], environment: ["XDG_RUNTIME_DIR": folder], directory: Binary.repository,
                timeout: Double(seconds))
        }
        #expect(trimmed(run.output + "]]\n") == block)
        #expect(run.errors == "")
        #expect(run.status == 0)
    }

    /// Returns a text without blanks at line ends, which files of this project never have.
    private static func trimmed(_ text: String) -> String { text.replacing(/[ \t]+\n/, with: "\n") }
}
