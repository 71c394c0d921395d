// For what it does before `main`.
import CProgram
import Glibc
import Linux
internal import Lua
import LuaHTTP
import LuaPrompt
import LuaRunLoops
import LuaStreams
import LuaSystem
import LuaTesting
import LuaTracing
import RunLoops

/// The door: what `rlhost` does with its arguments. See docs/cli.md.
///
/// Not a `main.swift`: its code would be the main actor's, and bring in the runtime of Swift's concurrency, nothing of which is
/// used here. A sixth of the program would be that, and a tenth of the time in which it starts.
@main
enum Program {
    static let version = "0.1.0"
    static let banner = "rlhost \(version)  (\(LuaHost.luaRelease), run loops)"

    /// The modules beside `runloop` that this program has. A new one is one element.
    static let batteries: @Sendable () -> [Battery] = {
        [.noTesting, .attach, .json, .http, .net, .trace] + SystemBatteries.all
    }

    /// As messages begin with it: the last part of how it was called, as by a link called lua.
    static var name: String {
        let last = Arguments.all { String(anyBytes: $0) }.first?.split(separator: "/").last ?? ""
        return last.isEmpty ? "rlhost" : String(last)
    }

    static func main() {
        Descriptor.keepStandardOnes()
        exit(run(Arguments.all { String(anyBytes: $0) }))
    }

    /// - Parameter arguments: see `String.init(anyBytes:)`; the program's name first.
    /// - Returns: the exit status.
    static func run(_ arguments: [String]) -> Int32 {
        // A script of that name is run as ./attach.
        if arguments.count > 1, arguments[1] == "attach" { return AttachCommand.run(arguments) }
        if arguments.count > 1, arguments[1] == "trace" { return TraceCommand.run(arguments) }
        if arguments.count > 1, arguments[1] == "top" { return TopCommand.run(arguments) }
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
    static func makeHost(batteries: @escaping @Sendable () -> [Battery] = batteries) -> LuaHost? {
        do throws(SystemError) {
            if let loop = try SharedTime.makeLoop() {
                let all: @Sendable () -> [Battery] = { [.testClock] + batteries() }
                if let host = LuaHost(loop: loop, batteries: all) { return host }
            } else if let host = LuaHost(loop: try RunLoop.makeCurrent(), batteries: batteries) {
                return host
            }
            report("cannot create state: not enough memory")
        } catch {
            report("cannot create the run loop: \(error)")
        }
        return nil
    }

    /// Tells the user, as lua does.
    static func report(_ message: String, ends: Bool = true) {
        Output.write("\(name): \(message)\(ends ? "\n" : "")", to: 2)
    }
}
