import Glibc
import LineEditor
import Linux
import Lua

/// The files that a prompt reads and writes.
enum PromptFiles {
    /// Failure of a file operation, as a sentence for the user.
    struct Failure: Error { let message: String }

    /// Returns the file that RLHOST_HISTORY names, or else `$XDG_STATE_HOME/rlhost/history`; nil for no file.
    private static func historyFile() -> HistoryFile? {
        if let path = getenv("RLHOST_HISTORY").map({ String(cString: $0) }) {
            return path.isEmpty || path == "/dev/null" ? nil : HistoryFile(path: path)
        }
        return folder("XDG_STATE_HOME", ".local/state").map {
            HistoryFile(path: "\($0)/rlhost/history", followsLinks: false)
        }
    }

    /// Returns the history. Keeps RLHOST_HISTORY_SIZE entries, if that is a number of at least 1.
    /// Returns nil if no history is kept.
    static func history() -> History? {
        let limit =
            getenv("RLHOST_HISTORY_SIZE").flatMap { Int(String(cString: $0)) }.flatMap { $0 > 0 ? $0 : nil }
            ?? History.standardLimit
        return historyFile().map { History(file: $0, limit: limit) }
    }

    /// Returns a message about a problem with the history; nil if there is none.
    static func notice(of history: History) -> String? {
        guard let path = history.file?.path else { return nil }
        if let failure = history.failure {
            return "rlhost: the history is not kept: \(failure.call): \(failure.message)"
        }
        guard history.dropped > 0 else { return nil }
        return
            "rlhost: \(path): the oldest \(history.dropped) entries are dropped; RLHOST_HISTORY_SIZE sets how many "
            + "are kept"
    }

    private static func folder(_ variable: String, _ otherwise: String) -> String? {
        if let path = getenv(variable), path.pointee == UInt8(ascii: "/") { return String(cString: path) }
        return getenv("HOME").map { "\(String(cString: $0))/\(otherwise)" }
    }

    /// Returns the path of `$XDG_CONFIG_HOME/rlhost/init.lua` if that file can be read.
    static func startUpFile() -> String? {
        folder("XDG_CONFIG_HOME", ".config").map { "\($0)/rlhost/init.lua" }.flatMap {
            access($0, R_OK) == 0 ? $0 : nil
        }
    }

    /// Returns the text of a file as an entry.
    static func entry(inFile path: String) throws(Failure) -> String {
        guard !path.isEmpty else { throw Failure(message: ".load: the name of a file is expected") }
        guard var text = contents(of: path) else { throw failure(".load: cannot open \(path)") }
        guard !text.hasPrefix("\u{1B}Lua") else {
            throw Failure(message: ".load: \(path) is compiled already; dofile \"\(path)\" runs it")
        }
        // As in a script, a byte-order mark and a first line for the shell are not Lua. The line is replaced by an
        // empty one, so that line numbers are right.
        if text.unicodeScalars.first == "\u{FEFF}" { text.unicodeScalars.removeFirst() }
        return text.hasPrefix("#") ? "--" + text : text
    }

    /// Writes entries to a file.
    static func save(_ entries: [String], to path: String) throws(Failure) {
        guard !path.isEmpty else { throw Failure(message: ".save: the name of a file is expected") }
        let bytes = entries.map { $0 + "\n" }.joined().anyBytes
        do throws(SystemError) { try OutputFile.write(bytes, to: path, mode: 0o666, followsLinks: true) } catch {
            throw Failure(message: ".save: cannot write \(path): \(error.reason ?? SystemError.text(of: error.errno))")
        }
    }

    /// Returns nil if the file cannot be opened; errno says why.
    static func contents(of path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        if ferror(file) != 0 { return nil }
        return bytes.withUnsafeBytes { String(anyBytes: $0) }
    }

    /// Makes a failure whose message ends with the system's reason.
    static func failure(_ text: String) -> Failure { Failure(message: "\(text): \(String(cString: strerror(errno)))") }
}

extension StringProtocol {
    /// The text without blanks at both ends.
    var trimmed: String {
        var text = Substring(self)
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }
}
