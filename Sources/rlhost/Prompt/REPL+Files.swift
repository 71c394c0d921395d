import Glibc
import LuaRunLoops

extension REPL {
    /// `$XDG_STATE_HOME/rlhost/history`, or what RLHOST_HISTORY names; nil: none.
    static func historyPath() -> String? {
        if let path = getenv("RLHOST_HISTORY") { return path.pointee == 0 ? nil : String(cString: path) }
        return folder("XDG_STATE_HOME", ".local/state").map { "\($0)/rlhost/history" }
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
