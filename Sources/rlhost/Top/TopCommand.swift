import Glibc
import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// `rlhost top`: what the loops of a process do, again and again. The screen is a script, `runloop.top`. See docs/seeing.md.
enum TopCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery("runloop.top", functions: Library([]))] + Program.batteries()
    }

    struct Options {
        var target: String?
        var isOnce = false
        var showsTasks = false
        /// Seconds between two looks, and that each of them is about.
        var seconds = 1.0
        var sort = "awake"
        var showsHelp = false

        static let sorts = ["awake", "passes", "callbacks", "late", "longest", "number"]

        /// Says what is wrong, as the end of "top: …".
        struct Misuse: Error { let message: String }

        init(_ arguments: some Collection<String>) throws(Misuse) {
            var rest = arguments[...]
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": showsHelp = true
                case "--once": isOnce = true
                case "--tasks": showsTasks = true
                case "-d":
                    guard let text = rest.popFirst(), let number = Double(text), number >= 0.1, number <= 3600 else {
                        throw .init(message: "'-d' needs a number of seconds, from 0.1 to 3600")
                    }
                    seconds = number
                case _ where argument.hasPrefix("--sort="):
                    sort = String(argument.dropFirst("--sort=".count))
                    guard Self.sorts.contains(sort) else {
                        throw .init(message: "--sort: one of \(Self.sorts.joined(separator: ", ")), not '\(sort)'")
                    }
                case _ where argument.hasPrefix("-"):
                    throw .init(message: "unknown option '\(argument)'; 'rlhost top --help' lists them")
                case _ where target != nil:
                    throw .init(message: "one process at a time, not '\(target ?? "")' and '\(argument)'")
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

    /// - Parameter arguments: all of the program's.
    static func run(_ arguments: [String]) -> Int32 {
        let options: Options
        do throws(Options.Misuse) {
            options = try Options(arguments.dropFirst(2))
        } catch {
            Program.report("top: \(error.message)")
            return AttachCommand.Status.usage
        }
        if options.showsHelp {
            Output.write(usage, to: 1)
            return 0
        }
        let target: AttachTarget
        do throws(AttachTarget.Failure) {
            target = try find(options.target)
        } catch {
            Program.report("top: \(error.message)")
            return AttachCommand.Status.unavailable
        }
        AttachTarget.useRuntimeDirectory(target.runtimeDirectory)
        guard let host = Program.makeHost(batteries: batteries) else { return 1 }
        defer { host.close() }
        host.onUncaught = { _, failure in
            Program.report("top: \(failure.text)")
            exit(1)
        }
        if let message = host.openLibraries(ignoringEnvironment: true)
            ?? host.load(.text("return require('runloop.top').run(...)", name: "=[rlhost]"))
        {
            Program.report("top: \(message)")
            return 1
        }
        let words = [
            target.portName, target.text, "\(options.seconds)", options.isOnce ? "once" : "live",
            "\(target.process)", options.sort, options.showsTasks ? "tasks" : "",
        ]
        guard host.start(arguments: words) != nil else {
            Program.report("top: not enough memory")
            return 1
        }
        // The script ends the process itself when it is done.
        host.loop.run()
        return 0
    }

    private static func find(_ text: String?) throws(AttachTarget.Failure) -> AttachTarget {
        if let text { return try AttachTarget.find(text) }
        let targets = AttachTarget.all()
        guard let target = targets.first else {
            throw .init(message: "there is no rlhost of yours that can be attached to")
        }
        guard targets.count == 1 else {
            let list = targets.map { "\($0.process)\($0.name.map { " (\($0))" } ?? "")" }.joined(separator: ", ")
            throw .init(message: "which one? rlhost top PID|NAME; there are \(list)")
        }
        return try target.opened()
    }
}
