import Foundation
import TestSupport
import Testing

/// A piece of code in a document: a ```` ```lua ```` block, or a ```` ```console ```` block with commands and their
/// output.
///
/// - A Lua block is run. A ```` ```text ```` block directly after it is its exact output.
/// - If its first line is a file's name (`-- door.lua`), the commands of the document find it under that name.
/// - An example marked ```` ```lua fragment: reason ```` is only compiled.
/// - In a console block each line after `$ ` is run, and the lines after it are its exact output, including errors.
struct DocumentExample: Sendable, CustomTestStringConvertible {
    enum Kind: Sendable { case script, fragment, transcript }

    let kind: Kind
    let document: String
    let line: Int
    let text: String
    var output: String?

    var testDescription: String { "\(document):\(line)" }

    /// The name of a script that other examples of the document can run.
    var fileName: String? { text.firstMatch(of: /^-- ([a-z_]+\.lua)\n/).map { String($0.1) } }

    /// The commands of a transcript, each with its output.
    var commands: [(command: String, output: String)] {
        var commands: [(command: String, output: String)] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            if line.hasPrefix("$ ") {
                commands.append((String(line.dropFirst(2)), ""))
            } else if !commands.isEmpty {
                commands[commands.count - 1].output += line + "\n"
            }
        }
        return commands
    }

    static let all: [DocumentExample] = documents.flatMap { document -> [DocumentExample] in
        guard let text = try? String(contentsOfFile: "\(Binary.repository)/\(document)", encoding: .utf8) else {
            return []
        }
        return read(text, document)
    }

    static let documents: [String] = {
        let docs = FileManager.default.enumerator(atPath: Binary.repository + "/docs")
        let names = docs?.compactMap { $0 as? String } ?? []
        return ["README.md"]
            + names.filter { $0.hasSuffix(".md") || $0.hasSuffix(".lua") }.sorted().map { "docs/\($0)" }
    }()

    /// The examples of a document; those of a Lua file are in its `---` comments.
    static func read(_ text: String, _ document: String) -> [DocumentExample] {
        var lines = text.components(separatedBy: "\n")
        if document.hasSuffix(".lua") { lines = lines.map { $0.hasPrefix("---") ? String($0.dropFirst(3)) : "" } }
        var examples: [DocumentExample] = []
        // Whether a text block at the present line would be the expected output of the example before it.
        var place = -1
        var index = 0
        while index < lines.count {
            defer { index += 1 }
            guard lines[index].hasPrefix("```") else {
                if !lines[index].isEmpty { place = -1 }
                continue
            }
            let mark = lines[index].dropFirst(3)
            let first = index + 1
            index = lines[first...].firstIndex(of: "```") ?? lines.count
            let body = lines[first..<index].map { $0 + "\n" }.joined()
            let kind: Kind? =
                switch mark {
                case "lua": .script
                case _ where mark.hasPrefix("lua fragment: "): .fragment
                case "console": .transcript
                default: nil
                }
            if let kind {
                examples.append(DocumentExample(kind: kind, document: document, line: first, text: body))
                place = kind == .script ? examples.count - 1 : -1
            } else {
                if mark == "text", place >= 0 { examples[place].output = body }
                place = -1
            }
        }
        return examples
    }
}
