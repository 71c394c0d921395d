internal import Glibc
internal import Lua

extension Attach {
    /// Returns whether a process belongs to this user and listens to `ask`: an rlhost whose owner has not forbidden it.
    ///
    /// The process must handle SIGURG. A process that does not handle the signal is not harmed by it.
    public static func canAsk(_ process: Int32) -> Bool {
        guard let text = contents(of: "/proc/\(process)/status") else { return false }
        var isOwn = false
        var isListening = false
        for line in text.split(separator: "\n") {
            if line.hasPrefix("Uid:") {
                isOwn = line.split { $0 == "\t" || $0 == " " }.dropFirst(2).first.flatMap { UInt32($0) } == geteuid()
            } else if line.hasPrefix("SigCgt:") {
                let mask = UInt64(line.dropFirst(7).filter { $0 != "\t" && $0 != " " }, radix: 16) ?? 0
                isListening = mask >> UInt64(SIGURG - 1) & 1 == 1
            }
        }
        return isOwn && isListening && process != getpid()
    }

    /// Asks a process to let `rlhost attach` in. The process reacts at its next Lua instruction, or when the signal
    /// wakes its loop.
    public static func ask(_ process: Int32) {
        var value = sigval()
        value.sival_int = Wishes.word
        _ = sigqueue(process, SIGURG, value)
    }

    /// Returns the text of a file in /proc, up to a number of bytes.
    public static func contents(of path: String, most: Int = 1 << 20) -> String? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0, bytes.count < most {
            bytes += buffer[..<count]
        }
        return String(decoding: bytes.prefix(most), as: UTF8.self)
    }
}
