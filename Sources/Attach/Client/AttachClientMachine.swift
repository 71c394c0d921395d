import Glibc
import LuaPrompt

/// HOST:PID: a process on another machine. ssh runs the rlhost of that machine, which attaches to the process.
struct AttachClientMachine {
    let host: String
    let process: String

    /// Returns nil if the text is not HOST:PID. A host that begins with "-" would be an option of ssh.
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        host = String(text[..<colon])
        process = String(text[text.index(after: colon)...])
        guard !host.isEmpty, !host.hasPrefix("-"), host.utf8.allSatisfy(Self.isPartOfHost), !process.isEmpty,
            process.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
    }

    private static func isPartOfHost(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"),
            UInt8(ascii: "@"):
            true
        default: false
        }
    }

    /// Quotes a word for the shell of the other machine.
    private static func quoted(_ word: String) -> String {
        "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }

    /// The arguments of ssh. A prompt needs a terminal on the other machine.
    func arguments(_ words: [String], hasTerminal: Bool) -> [String] {
        let command = (["rlhost", "attach", process] + words.map(Self.quoted)).joined(separator: " ")
        return ["ssh"] + (hasTerminal ? ["-t"] : []) + [host, command]
    }

    /// Replaces this program by ssh.
    func attach(_ words: [String]) throws(Program.Refusal) -> Never {
        let arguments = arguments(words, hasTerminal: isatty(0) == 1 && isatty(1) == 1)
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        execvp("ssh", &pointers)
        throw .init(message: "\(host): ssh cannot be started: \(String(cString: strerror(errno)))")
    }
}
