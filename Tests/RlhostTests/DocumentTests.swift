import Foundation
import Testing

@Suite("Documents")
struct DocumentTests {
    /// A folder with the document's named scripts.
    private func workplace(for example: DocumentExample) throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        for other in DocumentExample.all where other.document == example.document {
            if let name = other.fileName { try Data(other.text.utf8).write(to: folder[name]) }
        }
        return folder
    }

    private func isRunByTranscript(_ example: DocumentExample) -> Bool {
        guard let name = example.fileName else { return false }
        return DocumentExample.all.contains {
            $0.document == example.document && $0.kind == .transcript && $0.text.contains(name)
        }
    }

    @Test("every example does what the document says", arguments: DocumentExample.all)
    func example(_ example: DocumentExample) async throws {
        let folder = try workplace(for: example)
        switch example.kind {
        case .fragment:
            let run = try await ProgramRun.rlhost("-c", "-", input: example.text, in: folder.url)
            #expect(run.status == 0, "\(example.testDescription) does not compile: \(run.errors)")
        case .script where isRunByTranscript(example):
            break
        case .script:
            // `-e ""` gives it the global `rl`, which most examples do not bother to require.
            try Data(example.text.utf8).write(to: folder["example.lua"])
            let run = try await ProgramRun.rlhost("-e", "", "example.lua", in: folder.url)
            #expect(run.status == 0 && run.errors.isEmpty, "\(example.testDescription) fails: \(run.errors)")
            if let output = example.output {
                #expect(run.output == output, "\(example.testDescription) prints something else")
            }
        case .transcript:
            var status: Int32 = 0
            for (command, output) in example.commands {
                let run = try await ProgramRun.shell("exec 2>&1; (exit \(status)); \(command)", in: folder.url)
                #expect(run.output == output, "\(example.testDescription): $ \(command)")
                status = run.status
            }
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

            ```lua fragment
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
