import LuaRunLoops
import RunLoops

/// One run of the program.
enum Program {
    static let version = "0.1.0"
    static let banner = "rlhost \(version)  (\(LuaHost.luaRelease), run loops)"

    /// What the first argument may name instead of a script; a script of that name is run as `./name`. The functions get
    /// all arguments, the program's name first.
    static let subcommands: [String: @Sendable ([String]) -> Int32] = [
        "attach": { AttachCommand.run($0) }
    ]

    /// - Parameter arguments: see `String.init(anyBytes:)`; the program's name first.
    /// - Returns: the exit status.
    static func run(_ arguments: [String]) -> Int32 {
        if arguments.count > 1, let subcommand = subcommands[arguments[1]] { return subcommand(arguments) }
        let options: Options
        do throws(Options.Failure) {
            options = try Options(arguments)
        } catch {
            switch error {
            case .usage(let message):
                report("\(message)\n\(Options.usage)", ends: false)
                return 1
            case .own(let message):
                report(message)
                return 64
            }
        }
        if options.showsHelp || options.showsVersion {
            Output.write(options.showsHelp ? Options.usage : banner + "\n", to: 1)
            return 0
        }
        // Only the word itself: a script of that name is run as ./test.
        if let script = options.script, arguments[script] == "test", arguments[script - 1] != "--" {
            return TestCommand.run(options, arguments)
        }
        guard let host = makeHost() else { return 1 }
        return Session(host, options, arguments).run()
    }

    /// A state on the main thread's loop; or nil, when that has been reported.
    static func makeHost() -> LuaHost? {
        do throws(RunLoop.Handle.Failure) {
            if let host = LuaHost(loop: try RunLoop.makeCurrent()) { return host }
            report("cannot create state: not enough memory")
        } catch {
            report("cannot create the run loop: \(LuaHost.errorText(error.errno))")
        }
        return nil
    }

    /// Tells the user, as lua does.
    static func report(_ message: String, ends: Bool = true) {
        Output.write("rlhost: \(message)\(ends ? "\n" : "")", to: 2)
    }
}
