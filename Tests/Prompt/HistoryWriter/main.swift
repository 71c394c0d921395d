internal import Glibc
internal import LineEditor

// HistoryWriter PATH NAME LIMIT LENGTH: appends NAME-0, NAME-1 … until it is killed, and reports each written entry.
// Each entry has a third line of this number of letters.
let arguments = CommandLine.arguments
guard arguments.count == 5, let limit = Int(arguments[3]), let length = Int(arguments[4]) else {
    fatalError("usage: HistoryWriter path name limit length")
}
let file = HistoryFile(path: arguments[1])
let third = length > 0 ? "\n" + String(repeating: "x", count: length) : ""
var number = 0
while true {
    do {
        try file.append("\(arguments[2])-\(number)\nsecond line \\ of \(number)\(third)")
        let answer = Array("\(number)\n".utf8)
        _ = answer.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
        if limit > 0, number % 8 == 7 { try file.compact(limit: limit) }
        number += 1
    } catch {
        // The lock was not available in time: try again, as an editor does with the next entry.
    }
}
