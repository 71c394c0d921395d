import Glibc
import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// `rlhost top`: shows the activity of a process's loops, and updates the display. The command is a script,
/// `runloop.top`. See docs/seeing.md.
enum TopCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery(part: "runloop.top")] + Program.batteries()
    }

    struct Options {
        var target: String?
        var isOnce = false
        var showsTasks = false
        /// Seconds between two updates. Each update shows the activity of this time.
        var seconds = 1.0
        var sort = "awake"
        var showsHelp = false
        /// The address of a NATS server, whose processes are shown, and paths of files for the log-in.
        var server: String?
        var credentials = ""
        var certificates = ""
        /// The first given option that is invalid with `--via`, and the first one that is invalid without it.
        private var ofProcess: String?
        private var ofServer: String?

        static let sorts = ["awake", "passes", "callbacks", "late", "longest", "number"]

        init(_ arguments: ArraySlice<String>) throws(Program.Refusal) {
            var rest = arguments
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "--once": isOnce = true
                case "--tasks":
                    showsTasks = true
                    ofProcess = argument
                case "--via": server = try Self.value(of: argument, &rest, "the address of a server of NATS")
                case "--credentials":
                    credentials = try Self.value(of: argument, &rest, "a file")
                    ofServer = argument
                case "--ca":
                    certificates = try Self.value(of: argument, &rest, "a file")
                    ofServer = argument
                case "-d":
                    guard let text = rest.popFirst(), let number = Double(text), number >= 0.1, number <= 3600 else {
                        throw .misuse("'-d' needs a number of seconds, from 0.1 to 3600")
                    }
                    seconds = number
                case _ where argument.hasPrefix("--sort="):
                    sort = String(argument.dropFirst("--sort=".count))
                    ofProcess = "--sort"
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
            guard !showsHelp else { return }
            if server == nil, let ofServer { throw .misuse("\(ofServer) needs --via URL") }
            if server != nil, let other = target ?? ofProcess {
                throw .misuse("--via shows all processes: '\(other)' is for one of this machine")
            }
        }

        private static func value(
            of option: String, _ rest: inout ArraySlice<String>, _ expected: String
        ) throws(Program.Refusal) -> String {
            guard let value = rest.popFirst(), !value.isEmpty, !value.hasPrefix("-") else {
                throw .misuse("'\(option)' needs \(expected)")
            }
            return value
        }
    }

    static let usage = """
        usage: rlhost top [PID|NAME]           show the activity of a process's loops, until q is pressed
               rlhost top [PID|NAME] --once    print it once
               rlhost top --via URL [--once]   show the processes on a server of NATS
          -d SECONDS      the seconds between updates, each of which covers this time (1)
          --sort=KEY      the order of the loops: awake, passes, callbacks, late, longest or number (awake)
          --tasks         show the tasks of all threads, and the calls in which they wait
          --credentials FILE, --ca FILE   with --via: files with the log-in, and with trusted certificates
        Without an argument, shows the process to which 'rlhost attach' could attach, if there is only one.
        With --via, shows all processes whose bus was opened with the option expose = { "stats" }.
        exit status: 0 all went well, 64 wrong use, 69 the process cannot be attached to, does not answer or has ended,
        or no process answers

        """

    static func run(_ arguments: ArraySlice<String>) throws(Program.Refusal) -> Int32 {
        let options = try Options(arguments)
        if options.showsHelp {
            Output.write(usage, to: 1)
            return 0
        }
        if let server = options.server { return show(server, options) }
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

    private static func show(_ server: String, _ options: Options) -> Int32 {
        let words = [
            server, options.credentials, options.certificates, "\(options.seconds)", options.isOnce ? "once" : "live",
        ]
        let hasBegun = Program.run(
            "runloop.top.machines", words, title: "top: ", batteries: batteries, ignoringEnvironment: true)
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
