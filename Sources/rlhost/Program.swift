import LuaRunLoops
import RunLoops

/// One run of the program.
enum Program {
    static let version = "0.1.0"
    static let banner = "rlhost \(version)  (Lua 5.4, run loops)"

    static func run(_ arguments: [String]) -> Int32 {
        let options: Options
        do throws(Options.Failure) {
            options = try Options(arguments)
        } catch {
            switch error {
            case .usage(let message):
                report("\(message)\n\(Options.usage)")
                return 1
            case .own(let message):
                report(message)
                return 64
            }
        }
        if options.help {
            Output.write(Options.usage, to: 1)
            return 0
        }
        let loop = RunLoop.current
        guard let host = LuaHost(loop: loop) else {
            report("cannot create state: not enough memory")
            return 1
        }
        return Session(host, options, arguments).run()
    }

    /// Tells the user, as lua does.
    static func report(_ message: String) { Output.write("rlhost: \(message)\n", to: 2) }
}
