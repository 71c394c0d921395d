// The import is for the code that runs before `main`.
import CProgram
import Glibc
import Linux
internal import Lua
import LuaPrompt
import LuaRunLoops
import LuaStreams
import LuaSystem
import LuaTesting
import LuaTracing
import RunLoops

/// The entry point: parses the arguments of `rlhost` and runs what they ask for. See docs/cli.md.
///
/// This file is not `main.swift`: code in `main.swift` belongs to the main actor, which links the runtime of Swift's
/// concurrency. Nothing here uses that runtime. Costs if changed: a sixth of the program's size, and a tenth of its
/// start.
@main
enum Program {
    static let version = LuaHost.version
    static let banner = "rlhost \(version)  (\(LuaHost.luaRelease), run loops)"

    /// The modules of this program other than `runloop`. A new module is one more element.
    static let batteries: @Sendable () -> [Battery] = {
        [.noTesting, .attach, .json, .http, .net, .trace] + SystemBatteries.all
    }

    /// The name that messages begin with: the last part of the path by which the program was called, such as a link
    /// named lua.
    static var name: String {
        let last = Arguments.all { String(anyBytes: $0) }.first?.split(separator: "/").last ?? ""
        return last.isEmpty ? "rlhost" : String(last)
    }

    static func main() {
        ProcessEnvironment.makeSafe()
        StandardStreams.open()
        Signals.runMain { Program.run(Arguments.all { String(anyBytes: $0) }) }
    }

    /// - Parameter arguments: The program's name first; see `String.init(anyBytes:)`.
    /// - Returns: The exit status.
    static func run(_ arguments: [String]) -> Int32 {
        if let message = ProgramSeed.take() {
            report(message)
            return 64
        }
        // `rlhost ./attach` runs a script of that name.
        let words = arguments.dropFirst(2)
        switch arguments.dropFirst().first {
        case "attach"?: return command("attach") { () throws(Refusal) in try AttachClientCommand.run(words) }
        case "trace"?: return command("trace") { () throws(Refusal) in try TraceCommand.run(words) }
        case "top"?: return command("top") { () throws(Refusal) in try TopCommand.run(words) }
        case "new"?: return NewCommand.run(words)
        case "bundle"?: return BundleCommand.run(words)
        default: break
        }
        let options: Options
        do throws(Options.Failure) {
            options = try Options(arguments)
        } catch {
            switch error {
            case .usage(let message):
                report("\(message)\n\(OptionTable.usage)", ends: false)
                return 1
            case .own(let message):
                report(message)
                return 64
            }
        }
        if let text = options.shownText {
            Output.write(text, to: 1)
            return 0
        }
        // Only the exact word `test` is the command. `rlhost ./test` runs a script of that name.
        if let script = options.script, arguments[script] == "test", arguments[script - 1] != "--" {
            return TestCommand.run(options, arguments)
        }
        if options.watches { return WatchCommand.run(options, arguments) }
        if options.sandbox != nil { Sandbox.closeInherited() }
        guard let host = makeHost() else { return 1 }
        return Session(host, options, arguments).run()
    }

    /// Makes a Lua state on the main thread's loop. Returns nil after reporting that it could not.
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

    /// The reason why a command of the program cannot continue: a message and an exit status.
    struct Refusal: Error {
        let message: String
        /// 69: the process cannot be attached to, does not answer, or has ended.
        var status = unavailable

        static let unavailable: Int32 = 69

        static func misuse(_ message: String) -> Refusal { Refusal(message: message, status: 64) }
    }

    private static func command(_ name: String, _ body: () throws(Refusal) -> Int32) -> Int32 {
        do throws(Refusal) { return try body() } catch {
            report("\(name): \(error.message)")
            return error.status
        }
    }

    /// Runs a command that is a Lua module. The module ends the process itself when it is done.
    ///
    /// - Parameter title: The beginning of reported errors.
    /// - Returns: False if the command could not begin; the problem was then reported.
    static func run(
        _ module: String, _ words: [String], title: String = "", batteries: @escaping @Sendable () -> [Battery],
        ignoringEnvironment: Bool
    ) -> Bool {
        guard let host = makeHost(batteries: batteries) else { return false }
        defer { host.close() }
        host.onUncaught = { _, failure in
            report(title + failure.text)
            Ending.end(1)
        }
        var message =
            host.openLibraries(ignoringEnvironment: ignoringEnvironment)
            ?? ProgramSeed.adopt(host)
            ?? host.load(.own("return require('\(module)').run(...)"))
        if message == nil, host.start(arguments: words) == nil { message = "not enough memory" }
        if let message {
            report(title + message)
            return false
        }
        host.loop.run()
        return true
    }

    /// Writes a message to standard error, in the form that `lua` uses.
    static func report(_ message: String, ends: Bool = true) {
        Output.write("\(name): \(message.shown)\(ends ? "\n" : "")", to: 2)
    }
}
