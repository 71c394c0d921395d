import Glibc
import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// `rlhost top`: shows again and again what the loops of a process do. The screen is a script, `runloop.top`. See
/// docs/seeing.md.
enum TopCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery(part: "runloop.top")] + Program.batteries()
    }

    struct Options {
        var target: String?
        var isOnce = false
        var showsTasks = false
        /// Seconds between two updates; each shows what happened in this time.
        var seconds = 1.0
        var sort = "awake"
        var showsHelp = false

        static let sorts = ["awake", "passes", "callbacks", "late", "longest", "number"]

        init(_ arguments: ArraySlice<String>) throws(Program.Refusal) {
            var rest = arguments
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "--once": isOnce = true
                case "--tasks": showsTasks = true
                case "-d":
                    guard let text = rest.popFirst(), let number = Double(text), number >= 0.1, number <= 3600 else {
                        throw .misuse("'-d' needs a number of seconds, from 0.1 to 3600")
                    }
                    seconds = number
                case _ where argument.hasPrefix("--sort="):
                    sort = String(argument.dropFirst("--sort=".count))
                    guard Self.sorts.contains(sort) else {
                        throw .misuse("--sort: one of \(Self.sorts.joined(separator: ", ")), not '\(sort)'")
                    }
                case _ where argument.hasPrefix("-"):
                    throw .misuse(OptionTable.unknown(argument, of: "top"))
                case _ where target != nil:
                    throw .misuse("one process at a time, not '\(target ?? "")' and '\(argument)'")
                default: target = argument
                }
            }
        }
    }

    static let usage = """
        usage: rlhost top [PID|NAME]           show what the loops of a process do, until q is pressed
               rlhost top [PID|NAME] --once    print it once
          -d SECONDS      how often, and how long each look is about (1)
          --sort=KEY      the loops by awake, passes, callbacks, late, longest or number (awake)
          --tasks         the tasks of all threads, and what they wait in
        Without a process, the only one that can be attached to is shown. The same rules hold as for 'rlhost attach'.
        exit status: 0 all went well, 64 wrong use, 69 the process cannot be attached to, does not answer or has ended

        """

    static func run(_ arguments: ArraySlice<String>) throws(Program.Refusal) -> Int32 {
        let options = try Options(arguments)
        if options.showsHelp {
            Output.write(usage, to: 1)
            return 0
        }
        let target = try find(options.target)
        AttachClientTarget.useRuntimeDirectory(target.runtimeDirectory)
        let words = [
            target.portName, target.text, "\(options.seconds)", options.isOnce ? "once" : "live",
            "\(target.process)", options.sort, options.showsTasks ? "tasks" : "",
        ]
        let hasBegun = Program.run(
            "runloop.top", words, title: "top: ", batteries: batteries, ignoringEnvironment: true)
        return hasBegun ? 0 : 1
    }

    private static func find(_ text: String?) throws(Program.Refusal) -> AttachClientTarget {
        if let text { return try AttachClientTarget.find(text) }
        let targets = try AttachClientTarget.some()
        guard targets.count == 1 else {
            let list = targets.map { "\($0.process)\($0.name.map { " (\($0))" } ?? "")" }.joined(separator: ", ")
            throw .init(message: "which one? rlhost top PID|NAME; there are \(list)")
        }
        return try targets[0].opened()
    }
}
