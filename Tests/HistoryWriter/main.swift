internal import Glibc
internal import LineEditor

// HistoryWriter PATH NAME LIMIT: appends NAME-0, NAME-1 … until it is killed, and says after each that it is written.
let arguments = CommandLine.arguments
guard arguments.count == 4, let limit = Int(arguments[3]) else { fatalError("usage: HistoryWriter path name limit") }
let file = HistoryFile(path: arguments[1])
var number = 0
while true {
    do {
        try file.append("\(arguments[2])-\(number)\nsecond line \\ of \(number)")
        let answer = Array("\(number)\n".utf8)
        _ = answer.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
        if limit > 0, number % 8 == 7 { try file.compact(limit: limit) }
        number += 1
    } catch {
        // A lock that was not to be had in time: try again, as an editor does with the next entry.
    }
}
