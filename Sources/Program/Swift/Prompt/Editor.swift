import Glibc
import Linux
import Lua

/// The user's editor, `$VISUAL`, `$EDITOR` or `vi`; and the user's pager.
enum Editor {
    /// Opens a text in the user's editor, and waits until the editor ends.
    ///
    /// - Parameter terminal: The terminal that the editor draws on. The standard output of this process is not the
    ///   terminal itself.
    static func edit(_ text: String, terminal: Int32) throws(PromptFiles.Failure) -> String {
        let name = try file(text)
        defer { unlink(name) }
        let editor = variable("VISUAL") ?? variable("EDITOR") ?? "vi"
        let status = try run(editor, name, terminal)
        guard status == 0 else {
            throw PromptFiles.Failure(message: "the editor '\(editor)' has failed; nothing is changed")
        }
        guard var result = PromptFiles.contents(of: name) else {
            throw PromptFiles.failure("the text that the editor has written cannot be read")
        }
        while result.utf8.last == 10 { result.unicodeScalars.removeLast() }
        return result
    }

    /// Shows a text in `$PAGER`, or else in `less` with colours turned on. Waits until the pager ends.
    static func page(_ text: String, terminal: Int32) throws(PromptFiles.Failure) {
        let name = try file(text)
        defer { unlink(name) }
        let pager = variable("PAGER") ?? "less -R"
        guard try run(pager, name, terminal) == 0 else {
            throw PromptFiles.Failure(message: "the pager '\(pager)' has failed; PAGER names another one")
        }
    }

    /// Makes a temporary file that holds a text.
    private static func file(_ text: String) throws(PromptFiles.Failure) -> String {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        do throws(SystemError) {
            let file = try OutputFile(stem: "\(folder)/rlhost-\(getpid())", ending: ".lua")
            _ = (text + "\n").withAnyBytes { Descriptor.write($0, to: file.descriptor.number) }
            return file.path
        } catch {
            throw PromptFiles.Failure(
                message: "a file for it cannot be made in \(folder): \(SystemError.text(of: error.errno))")
        }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Runs the editor through the shell: the variable may contain options, too.
    private static func run(_ editor: String, _ file: String, _ terminal: Int32) throws(PromptFiles.Failure) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for fd in 1...2 as ClosedRange<Int32> where terminal >= 0 {
            posix_spawn_file_actions_adddup2(&actions, terminal, fd)
        }
        var process: pid_t = 0
        let arguments: [String] = ["/bin/sh", "-c", "\(editor) \"$1\"", "sh", file]
        let words = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let error = posix_spawn(&process, "/bin/sh", &actions, nil, words, environ)
        guard error == 0 else {
            throw PromptFiles.Failure(message: "'\(editor)' cannot be started: \(String(cString: strerror(error)))")
        }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status
    }
}
