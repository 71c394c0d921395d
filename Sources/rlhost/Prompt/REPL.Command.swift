import Glibc
import LineEditor

extension REPL {
    /// `.name argument`: what is asked of the prompt, not of Lua. No statement begins with a dot and a letter.
    struct Command {
        let name: String
        let argument: String

        init?(_ text: String) {
            let text = text.trimmed
            guard text.hasPrefix("."), let letter = text.dropFirst().utf8.first, letter >= 0x61, letter <= 0x7A,
                !text.contains("\n")
            else { return nil }
            let parts = text.dropFirst().split(separator: " ", maxSplits: 1)
            name = String(parts[0])
            argument = parts.count > 1 ? parts[1].trimmed : ""
        }

        static let all: [(name: String, argument: String, meaning: String)] = [
            ("help", "[name]", "this list, or what the reference says about a call: .help rl.sleep"),
            ("load", "file", "run a file as if it had been typed"),
            ("save", "file", "write what was entered in this session to a file"),
            ("editor", "", "type several lines; a line with a single dot runs them"),
            ("break", "", "as a line's end: drop the unfinished entry"),
            ("mode", "[name]", "show or set the mode in which the prompt runs the loop"),
            ("timers", "", "list the timers of the loop"),
            ("tasks", "", "list the tasks that wait: in what, where, since when"),
            ("why", "", "list what keeps the loop alive"),
            ("where", "", "show where the process is, also while it is busy"),
            ("interrupt", "", "end the callback that runs, and not the process"),
            ("inspect", "expression", "show a value with all that is in it"),
            ("time", "code", "run code, and say how long it took"),
            ("traceback", "", "show the last error once more, with its traceback"),
            ("edit", "", "edit the last entry in $EDITOR; Control-X Control-E edits this one"),
            ("exit", "", "leave; so does Control-D on an empty line"),
        ]

        /// Completes a command's name; nil if the text is none.
        static func complete(_ text: String) -> LineEditor.Completion? {
            guard text.hasPrefix("."), !text.contains(" "), !text.dropFirst().contains(".") else { return nil }
            let names = all.map { ".\($0.name)" }.filter { $0.hasPrefix(text) }.sorted()
            return names.isEmpty ? nil : LineEditor.Completion(start: 0, candidates: names)
        }

        /// One line for each.
        static func list(without left: Set<String> = []) -> String {
            all.filter { !left.contains($0.name) }.map { name, argument, meaning in
                let call = ".\(name) \(argument)"
                return call + String(repeating: " ", count: max(1, 22 - call.utf8.count)) + meaning
            }.joined(separator: "\n")
        }

        static func unknown(_ name: String) -> String {
            let near = all.map(\.name).first { $0.hasPrefix(name) || name.hasPrefix($0) }
            return "unknown command '.\(name)'" + (near.map { " (did you mean '.\($0)'?)" } ?? "; .help lists them")
        }

        /// The text of a file, as an entry; nil, and told why, if it cannot be had.
        static func read(_ path: String, _ report: (String) -> Void) -> String? {
            guard !path.isEmpty else {
                report(".load: the name of a file is expected")
                return nil
            }
            guard let file = fopen(path, "r") else {
                report(".load: cannot open \(path): \(String(cString: strerror(errno)))")
                return nil
            }
            defer { fclose(file) }
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
            let text = String(decoding: bytes, as: UTF8.self)
            // As for a script: a first line for the shell is none for Lua. The line stays, so that the numbers are right.
            return text.hasPrefix("#") ? "--" + text : text
        }

        /// Writes entries to a file. What to say; nil, and told why, if that failed.
        static func save(_ entries: [String], to path: String, _ report: (String) -> Void) -> String? {
            guard !path.isEmpty else {
                report(".save: the name of a file is expected")
                return nil
            }
            guard let file = fopen(path, "w") else {
                report(".save: cannot write \(path): \(String(cString: strerror(errno)))")
                return nil
            }
            var text = entries.map { $0 + "\n" }.joined()
            let isWritten = text.withUTF8 { fwrite($0.baseAddress, 1, $0.count, file) } == text.utf8.count
            guard fclose(file) == 0, isWritten else {
                report(".save: cannot write \(path): \(String(cString: strerror(errno)))")
                return nil
            }
            return "\(entries.count) entries written to \(path)"
        }
    }
}
