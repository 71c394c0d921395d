import Foundation
import TestSupport
import Testing

@Suite("Documents", .timed)
struct DocumentTests {
    /// Runs in a directory in which the document's named scripts are, and in `bin` the program.
    private func inWorkplace(for example: DocumentExample, _ body: (String) throws -> Void) throws {
        try Binary.withDirectory { directory in
            for other in DocumentExample.all where other.document == example.document {
                if let name = other.fileName {
                    try Data(other.text.utf8).write(to: URL(filePath: "\(directory)/\(name)"))
                }
            }
            try FileManager.default.createDirectory(atPath: directory + "/bin", withIntermediateDirectories: false)
            try FileManager.default.createSymbolicLink(
                atPath: directory + "/bin/rlhost", withDestinationPath: Binary.path)
            try body(directory)
        }
    }

    private func isRunByTranscript(_ example: DocumentExample) -> Bool {
        guard let name = example.fileName else { return false }
        return DocumentExample.all.contains {
            $0.document == example.document && $0.kind == .transcript && $0.text.contains(name)
        }
    }

    @Test("every example gives the output in the document", arguments: DocumentExample.all)
    func example(_ example: DocumentExample) throws {
        try inWorkplace(for: example) { directory in
            switch example.kind {
            case .fragment: try compile(example)
            case .script where isRunByTranscript(example): break
            case .script: try run(example, in: directory)
            case .transcript: try follow(example, in: directory)
            }
        }
    }

    private func compile(_ example: DocumentExample) throws {
        let run = try Binary.run(["-c", "-"], input: example.text)
        #expect(run.status == 0, "\(example.testDescription) does not compile: \(run.errors)")
    }

    private func run(_ example: DocumentExample, in directory: String) throws {
        try Data(example.text.utf8).write(to: URL(filePath: directory + "/example.lua"))
        // Most examples leave out the line that requires runloop.
        let run = try Binary.run(["-l", "rl=runloop", "example.lua"], directory: directory)
        #expect(run.status == 0 && run.errors.isEmpty, "\(example.testDescription) fails: \(run.errors)")
        guard let output = example.output else { return }
        #expect(run.output == output, "\(example.testDescription) prints something else")
    }

    private func follow(_ example: DocumentExample, in directory: String) throws {
        var status: Int32 = 0
        for (command, output) in example.commands {
            let run = try Binary.shell(
                "exec 2>&1; PATH=$PWD/bin:$PATH; export PATH; (exit \(status)); \(command)", directory: directory)
            #expect(
                TestRunnerFixture.withoutSlowness(run.output) == TestRunnerFixture.withoutSlowness(output),
                "\(example.testDescription): $ \(command)")
            status = run.status
        }
    }

    @Test("the examples of the README, the guide and the reference are found")
    func areFound() {
        for document in ["README.md", "docs/guide.md", "docs/cli.md", "docs/lua/runloop.lua"] {
            let count = DocumentExample.all.count { $0.document == document }
            #expect(count > 0, "no example was found in \(document): has the form of examples changed?")
        }
    }

    @Test("blocks are read with their outputs and names")
    func reading() {
        let examples = DocumentExample.read(
            """
            Text.

            ```lua
            -- hello.lua
            print "hello"
            ```

            ```text
            hello
            ```

            ```lua fragment: nothing sees it
            x = 1
            ```
            ```sh
            make
            ```
            ```console
            $ rlhost hello.lua
            hello
            $ echo $?
            0
            ```
            """, "test.md")
        #expect(examples.map(\.kind) == [.script, .fragment, .transcript])
        #expect(examples[0].output == "hello\n")
        #expect(examples[0].fileName == "hello.lua")
        #expect(examples[0].line == 3)
        #expect(examples[1].output == nil)
        #expect(examples[2].commands.map(\.command) == ["rlhost hello.lua", "echo $?"])
        #expect(examples[2].commands.map(\.output) == ["hello\n", "0\n"])
    }
}
