import Glibc
import LineEditor
import Linux
import LuaRunLoops

extension REPL {
    /// `$XDG_STATE_HOME/rlhost/history`, or what RLHOST_HISTORY names; nil: none.
    static func historyPath() -> String? {
        if let path = getenv("RLHOST_HISTORY").map({ String(cString: $0) }) {
            return path.isEmpty || path == "/dev/null" ? nil : path
        }
        return folder("XDG_STATE_HOME", ".local/state").map { "\($0)/rlhost/history" }
    }

    /// How many entries are kept: RLHOST_HISTORY_SIZE, if that is a number of at least 1.
    static var historyLimit: Int {
        getenv("RLHOST_HISTORY_SIZE").flatMap { Int(String(cString: $0)) }.flatMap { $0 > 0 ? $0 : nil }
            ?? History.standardLimit
    }

    /// What the user should know of the history, which is kept without a word otherwise.
    static func historyNotice(_ history: History) -> String? {
        guard let path = history.file?.path else { return nil }
        if let failure = history.failure {
            return "rlhost: the history is not kept: \(failure.call): \(failure.message)"
        }
        guard history.dropped > 0 else { return nil }
        return
            "rlhost: \(path): the oldest \(history.dropped) entries are dropped; RLHOST_HISTORY_SIZE sets how many are kept"
    }

    static func folder(_ variable: String, _ otherwise: String) -> String? {
        if let path = getenv(variable), path.pointee == UInt8(ascii: "/") { return String(cString: path) }
        return getenv("HOME").map { "\(String(cString: $0))/\(otherwise)" }
    }

    /// `$XDG_CONFIG_HOME/rlhost/init.lua`. It may wait: then the prompt comes first.
    func runStartUpFile() {
        guard let path = Self.folder("XDG_CONFIG_HOME", ".config").map({ "\($0)/rlhost/init.lua" }),
            access(path, R_OK) == 0
        else { return }
        if let message = host.load(.file(path)) { return report(message) }
        _ = host.start { $0.onFailure = { [unowned self] in report($0.traceback) } }
    }
}

extension StringProtocol {
    /// Without blanks at both ends.
    var trimmed: String {
        var text = Substring(self)
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }
}
