import Lua
import LuaRunLoops
import Tracing

/// `rlhost trace --via URL NAME…`: collects recordings of processes on a message bus. The command is a script,
/// `runloop.trace_via`. See docs/seeing.md.
struct TraceBus {
    private let words: [String]

    /// - Parameter names: the names of processes, perhaps followed by a number of seconds.
    init(
        _ url: String, names: [String], output: String?, credentials: String?, ca: String?
    ) throws(Program.Refusal) {
        var names = names
        var seconds = ""
        if let last = names.last, let number = Double(last) {
            guard number > 0, number <= 3600 else {
                throw .misuse("the number of seconds is at most 3600, and not '\(last)'")
            }
            seconds = last
            names.removeLast()
        }
        guard !names.isEmpty else {
            throw .misuse("it needs the name of a process: rlhost trace --via URL NAME -o FILE.html")
        }
        if names.contains("") { throw .misuse("the name of a process cannot be empty") }
        guard let output else { throw .misuse("it needs a file to write: rlhost trace --via URL NAME -o FILE.html") }
        words = [url, seconds, output, credentials ?? "", ca ?? ""] + names
    }

    private static let batteries: @Sendable () -> [Battery] = {
        [Battery(part: "runloop.trace_via", functions: functions)] + Program.batteries()
    }

    private static let functions = Library([
        // (output, path, title, …): makes one recording of several. Returns true; or nil and the problem.
        .init("convert") { thread in
            let call = Call(thread)
            guard let output = call.string(1) else { return call.answerNil() }
            let words = (0..<max(0, call.count - 1)).map { call.string(Int32($0) + 2) ?? "" }
            let paths = words.indices.filter { $0 % 2 == 0 }.map { words[$0] }
            let titles = words.indices.filter { $0 % 2 == 1 }.map { words[$0] }
            do throws(Recording.Conversion.Problem) {
                try Recording.Conversion.convert(paths, to: output, titles: titles)
                return call.answer(true)
            } catch {
                return call.refuse(error.description)
            }
        }
    ])

    /// Returns the exit status if the script could not begin.
    func run() -> Int32 {
        let hasBegun = Program.run(
            "runloop.trace_via", words, title: "trace: ", batteries: Self.batteries, ignoringEnvironment: true)
        return hasBegun ? 0 : 1
    }
}
