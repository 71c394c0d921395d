import CProgram
import Lua

/// The table of options of the program and of its commands. `--help`, the completions, and the advice after a mistake
/// are made from it. See Sources/Program/C/shell/options.
enum OptionTable {
    struct Row {
        let command: String
        let option: String
        let value: String
        let help: String
        /// The row in the form that the completions use.
        let line: String

        /// Such as "-e stat" or "--slow=SECONDS".
        var title: String {
            if value == "-" { return option.split(separator: ",").joined(separator: ", ") }
            if option == "." { return value }
            return option + (option.utf8.last == UInt8(ascii: "=") ? "" : " ") + value
        }
    }

    private static var lines: [Substring] { String(cString: program_options()).split(separator: "\n") }

    private static func row(_ line: Substring) -> Row? {
        guard line.utf8.first != UInt8(ascii: "#"), line.utf8.first != UInt8(ascii: ":") else { return nil }
        var columns: [String] = []
        var column = ""
        var blanks = 0
        for character in line.unicodeScalars {
            if column.isEmpty, character == " " { continue }
            blanks = character == " " ? blanks + 1 : 0
            column.unicodeScalars.append(character)
            guard blanks == 2 else { continue }
            column.unicodeScalars.removeLast(2)
            columns.append(column)
            (column, blanks) = ("", 0)
        }
        columns.append(column)
        guard columns.count >= 3 else { return nil }
        let row = columns.joined(separator: "\t")
        return Row(
            command: columns[0], option: columns[1], value: columns[2], help: columns.count > 4 ? columns[4] : "",
            line: String(String.UnicodeScalarView(row.unicodeScalars.filter { $0 != "'" })))
    }

    /// The help of the program.
    static var usage: String {
        var text = "usage: rlhost [options] [script [args]]\n"
        for line in lines {
            if line.utf8.first == UInt8(ascii: ":") { text += line.dropFirst(2) + "\n" }
            guard let row = row(line), row.command != "modules" else { continue }
            let isProgram = row.command == "rlhost"
            guard isProgram != (row.option == ".") else { continue }
            let title = "  " + (isProgram ? row.title : "\(row.command) \(row.title)")
            let isShort = title.utf8.count < 12
            text += isShort ? title + String(repeating: " ", count: 12 - title.utf8.count) : title + "\n"
            text += wrapped(row.help, indentation: isShort ? 12 : 20, isBegun: isShort) + "\n"
        }
        return text
    }

    private static func wrapped(_ text: String, indentation: Int, isBegun: Bool) -> String {
        let margin = String(repeating: " ", count: indentation)
        var lines = [isBegun ? "" : margin]
        var width = indentation
        for word in text.split(separator: " ") {
            if width + word.count > 79 {
                lines.append(margin)
                width = indentation
            }
            lines[lines.count - 1] += (width == indentation ? "" : " ") + word
            width += word.count + (width == indentation ? 0 : 1)
        }
        return lines.joined(separator: "\n")
    }

    /// Returns the script with completions for bash, zsh or fish; nil for any other shell.
    static func completions(for shell: String) -> String? {
        guard let script = shell.withCString({ program_completions($0) }) else { return nil }
        let table = lines.compactMap { row($0)?.line }.joined(separator: "\n")
        return String(cString: script).split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let parts = line.split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 3, parts[1] == "OPTIONS" else { return String(line) }
            return parts[0] + table + parts[2]
        }.joined(separator: "\n")
    }

    /// Returns the text for an unknown option of a command, with the option that is probably meant.
    static func unknown(_ argument: String, of command: String = "rlhost") -> String {
        let known = lines.compactMap { row($0) }.filter { $0.command == command && $0.option != "." }
            .flatMap { $0.option.split(separator: ",").map(String.init) }.filter { $0.utf8.count > 2 }
        let name = argument.split(separator: "=", maxSplits: 1).first.map(String.init) ?? argument
        let near =
            known.first { $0.hasPrefix(name) || argument.hasPrefix($0) }
            ?? nearest(to: name, known) ?? nearest(to: name + "=", known)
        let help = command == "rlhost" ? "rlhost --help" : "rlhost \(command) --help"
        return "unknown option '\(argument)'" + (near.map { " (did you mean '\($0)'?)" } ?? "; '\(help)' lists them")
    }
}
