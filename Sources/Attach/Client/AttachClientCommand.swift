import Glibc
import Linux
import LuaPrompt
import LuaRunLoops
import RunLoops

/// `rlhost attach`: a prompt in a running process, or code to run in it. See docs/repl.md.
enum AttachClientCommand {

    struct Options {
        var codes: [String] = []
        var asksWhere = false
        var follows = false
        var target: String?
        var showsHelp = false

        /// The words of the command line, without the word that names the process.
        var words: [String] {
            codes.flatMap { ["-e", $0] } + (asksWhere ? ["--where"] : []) + (follows ? ["--follow"] : [])
        }

        init(_ arguments: ArraySlice<String>) throws(Program.Refusal) {
            var rest = arguments
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "-e":
                    guard let code = rest.popFirst() else { throw .misuse("'-e' needs code to run") }
                    codes.append(code)
                case "--where": asksWhere = true
                case "--follow": follows = true
                case _ where argument.hasPrefix("-e"): codes.append(String(argument.unicodeScalars.dropFirst(2)))
                case _ where argument.hasPrefix("-"):
                    throw .misuse(OptionTable.unknown(argument, of: "attach"))
                case _ where target != nil:
                    throw .misuse("one process at a time, not '\(target ?? "")' and '\(argument)'")
                default: target = argument
                }
            }
            guard target == nil, !showsHelp else { return }
            if asksWhere { throw .misuse("--where needs a process: rlhost attach PID|NAME --where") }
            if follows { throw .misuse("--follow needs a process: rlhost attach PID|NAME --follow") }
            if !codes.isEmpty { throw .misuse("-e needs a process to run in: rlhost attach PID|NAME -e code") }
        }
    }

    static let usage = """
        usage: rlhost attach                          list the processes to which this user can attach
               rlhost attach PID|NAME                 open a prompt in a process
               rlhost attach PID|NAME [-e code] …     run code in a process, print its values; also commands: -e .why
               rlhost attach PID|NAME --where         show the stack of the code that runs in a process
               rlhost attach PID|NAME --follow        show the output of a process's script from now on
               rlhost attach HOST:PID …               the same on another machine, through ssh
        A user can attach to each of his own processes of rlhost, unless that was forbidden: by --no-attach, by
        RLHOST_ATTACH=off in the environment, or by rl.attach(false) in the script.
        exit status: 0 all went well, 1 code raised an error, 64 wrong use, 69 the process cannot be attached
        to, does not answer or has ended, 130 interrupted

        """

    static func run(_ arguments: ArraySlice<String>) throws(Program.Refusal) -> Int32 {
        let options = try Options(arguments)
        if options.showsHelp {
            Output.write(usage, to: 1)
            return 0
        }
        guard let text = options.target else { return try list() }
        if let machine = AttachClientMachine(text) { try machine.attach(options.words) }
        let connection = try AttachClientConnection(AttachClientTarget.find(text))
        let codes = (options.asksWhere ? [".where"] : []) + options.codes + (options.follows ? [".follow"] : [])
        if !codes.isEmpty { return AttachClientRunner(connection).run(codes) }
        return AttachClientPrompt(connection).run()
    }

    private static func list() throws(Program.Refusal) -> Int32 {
        let targets = try AttachClientTarget.some()
        let rows =
            [["PID", "NAME", "COMMAND"]]
            + targets.map { ["\($0.process)", $0.name?.shownInLine ?? "-", $0.command.shownInLine] }
        let widths = (0..<2).map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let process = String(repeating: " ", count: widths[0] - row[0].count) + row[0]
            let name = row[1] + String(repeating: " ", count: widths[1] - row[1].count)
            Output.write("\(process)  \(name)  \(row[2])\n", to: 1)
        }
        return 0
    }
}
