import Foundation
import Testing

@Suite("Sources")
struct SourceTests {
    static let swift = Tree.files(under: "Sources", "swift") + Tree.files(under: "Tests", "swift") + ["Package.swift"]
    static let c = Tree.files(under: "Sources", "c", "h")
    static let lua =
        Tree.files(under: "Sources", "lua") + Tree.files(under: "scripts", "lua")
        + Tree.files(under: "docs/examples", "lua") + Tree.files(under: "Tests", "lua")

    /// Too long already when the rule came. An entry goes when its file is short enough, and none may be added.
    static let tooLong: Set<String> = []

    @Test("no file is so long that one gets lost in it", arguments: swift + c + lua)
    func length(path: String) throws {
        let count = try Tree.lines(path).count - 1
        if Self.tooLong.contains(path) {
            #expect(count >= 400, "\(path) has \(count) lines now: take it from the list of those that are too long")
        } else {
            #expect(count < 400, "\(path) has \(count) lines: a file with 400 or more is asking to be two")
        }
    }

    /// Where `!` after a value is right: never. It may be a negation, a comparison or part of a name in a text.
    @Test("nothing is unwrapped or tried by force", arguments: Tree.files(under: "Sources", "swift"))
    func force(path: String) throws {
        for (number, line) in try Tree.lines(path).enumerated() {
            let code = Self.code(line)
            let place = "\(path):\(number + 1)"
            #expect(
                !code.contains(/\btry!/),
                "\(place): 'try!' turns an error into a crash without a word; catch it and say why")
            // Declared so, as `var timers: LuaTimers!`: set in init, before anything can ask.
            let isDeclaration = code.contains(/\b(var|let) \w+: \w+!( = nil)?$/)
            #expect(
                isDeclaration || !code.contains(/[\w\])]!(?![=\w])/),
                "\(place): '!' crashes without saying what was missing; use guard, or a precondition with a text")
            #expect(
                !code.contains(/\bas!/), "\(place): 'as!' crashes without saying what was found; use 'as?' and guard")
        }
    }

    /// The line without comments and texts.
    static func code(_ line: String) -> String {
        line.replacing(/"(?:\\.|[^"\\])*"/, with: "\"\"").replacing(/\/\/.*$/, with: "")
            .trimmingCharacters(in: .whitespaces)
    }

    @Test("every test says in words what holds", arguments: Tree.files(under: "Tests", "swift"))
    func testNames(path: String) throws {
        for match in try Tree.text(path).matches(of: /(?m)^ *@Test\b(\(\s*")?/) {
            #expect(
                match.1 != nil,
                "\(path): a test has one name for readers, the text of its @Test; its function's is short")
        }
    }

    @Test("names of Apple's libraries stay out of the sources", arguments: Tree.files(under: "Sources"))
    func foundation(path: String) throws {
        for (number, line) in try Tree.lines(path).enumerated() {
            #expect(
                !Self.code(line).contains(/\b(import (Foundation|Dispatch)|DispatchQueue|NSObject)\b/),
                "\(path):\(number + 1): without Foundation and Dispatch the program starts faster, and RunLoop has one meaning"
            )
        }
    }

    @Test("Swift's concurrency stays out of the program", arguments: Tree.files(under: "Sources", "swift"))
    func concurrency(path: String) throws {
        let reason = "that brings in a megabyte, libdispatch with it, and the program starts later"
        #expect(!path.hasSuffix("/main.swift"), "\(path) is the main actor's: \(reason)")
        for (number, line) in try Tree.lines(path).enumerated() {
            #expect(
                !Self.code(line).contains(/@MainActor|\b(await|async|actor) |\bTask( \{|\.detached)/),
                "\(path):\(number + 1): \(reason)")
        }
    }

    /// Several small types under one name, on purpose.
    static let collections: Set = ["Sources/RunLoops/RunLoop.Vocabulary.swift"]

    @Test("a file with a dotted name holds the type of that name", arguments: swift)
    func names(path: String) throws {
        let names = URL(filePath: path).deletingPathExtension().lastPathComponent.split(separator: ".")
        // With a plus sign it is an extension of that type.
        guard names.count > 1, !path.contains("+"), !Self.collections.contains(path) else { return }
        let declaration = try Regex("\\b(struct|class|enum|protocol|actor) \(names[names.count - 1])\\b")
        #expect(
            try Tree.text(path).contains(declaration),
            "\(path) does not declare \(names.joined(separator: ".")): a file named by its type is found without searching"
        )
    }

    @Test("lines end where their text ends, and files end with a line", arguments: Tree.texts)
    func whitespace(path: String) throws {
        let text = try Tree.text(path)
        for (number, line) in text.components(separatedBy: "\n").enumerated() {
            #expect(
                !line.hasSuffix(" ") && !line.hasSuffix("\t") && !line.hasSuffix("\r"),
                "\(path):\(number + 1) ends with a blank, which nobody sees and every diff shows")
        }
        #expect(
            text.isEmpty || text.hasSuffix("\n") && !text.hasSuffix("\n\n"),
            "\(path) has to end with exactly one line break, or the next line appended makes two lines of diff")
    }

    @Test("C headers are guarded, and say what they are for", arguments: Tree.files(under: "Sources", "h"))
    func headers(path: String) throws {
        let text = try Tree.text(path)
        if path != "Sources/CLua/shim.h" {
            #expect(text.contains("#pragma once"), "\(path) has no '#pragma once': included twice, it breaks the build")
        }
        #expect(text.hasPrefix("//"), "\(path) begins without a word on what it is for")
    }

    @Test("swift-format has nothing to say")
    func format() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments =
            ["swift", "format", "lint", "--strict", "--recursive", "--configuration", Tree.url(".swift-format").path]
            + ["Package.swift", "Sources", "Tests"].map { Tree.url($0).path }
        let output = Pipe()
        process.standardError = output
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        if process.terminationStatus != 0, !text.contains(".swift:") { return }  // it is not installed
        #expect(
            process.terminationStatus == 0,
            "one form for all, so that diffs show meaning: run 'swift format -i -r Package.swift Sources Tests'\n\(text)"
        )
    }
}
