import Glibc
import Linux
import Lua
import LuaRunLoops
import LuaSystem

/// `rlhost --watch`: runs a script as a child process, and again when a file that the script has read changes. The
/// command is a script, `runloop.watch`. See docs/cli.md.
enum WatchCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery("runloop.watch", functions: functions)] + Program.batteries()
    }

    private static let functions = Library([
        // die(name): ends the process by a signal: INT, TERM or HUP.
        .init("die") { thread in
            switch Call(thread).string(1) {
            case "INT"?: Ending.die(by: SIGINT)
            case "HUP"?: Ending.die(by: SIGHUP)
            default: Ending.die(by: SIGTERM)
            }
        }
    ])

    static func run(_ options: Options, _ arguments: [String]) -> Int32 {
        guard let script = options.script, !options.scriptIsInput, !options.isInteractive, !options.checksSyntax else {
            Program.report("--watch: it needs a script, and neither -i nor -c: rlhost --watch script.lua")
            return 64
        }
        var words = arguments
        for index in (1..<script).reversed() where words[index] == "--watch" { words.remove(at: index) }
        if let path = Directory.target(ofLink: "/proc/self/exe") {
            words[0] = path.withUnsafeBytes { String(anyBytes: $0) }
        }
        let hasBegun = Program.run(
            "runloop.watch", [arguments[script]] + words, title: "watch: ", batteries: batteries,
            ignoringEnvironment: true)
        return hasBegun ? 0 : 1
    }
}

/// A process that `rlhost --watch` has started. It reports which Lua files it reads.
enum WatchedProgram {
    private static let variable = "RLHOST_WATCHED"
    /// The descriptor of the file for the paths. Set before there is a second thread.
    nonisolated(unsafe) private static var descriptor: Int32 = -1

    static var isWatched: Bool { descriptor >= 0 }

    private static let functions = Library([
        // note(path): before it is read
        .init("note") { thread in
            let call = Call(thread)
            let path = call.bytes(1).map { Array($0) } ?? []
            var file = stat()
            _ = stat((path + [0]).map { CChar(bitPattern: $0) }, &file)
            let state = "\(file.st_mtim.tv_sec) \(file.st_mtim.tv_nsec) \(file.st_size) "
            let line = Array(state.utf8) + path + [UInt8(ascii: "\n")]
            _ = line.withUnsafeBytes { Descriptor.write($0, to: descriptor) }
            return call.nothing()
        }
    ])

    /// Prepares a state, and the states of its threads. Returns an error message, or nil.
    static func begin(_ host: LuaHost) -> String? {
        guard let path = getenv(variable).map({ String(cString: $0) }) else { return nil }
        // Programs that the script starts must not inherit the variable.
        unsetenv(variable)
        descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let before = host.threads.world.prepare
        host.threads.world.prepare = { host in prepare(host) ?? before(host) }
        return prepare(host)
    }

    private static func prepare(_ host: LuaHost) -> String? {
        let stack = host.stack
        guard stack.pushModule("runloop.watched"), Call(stack.thread).push(functions),
            stack.call(arguments: 1, results: 0)
        else { return host.popMessage() }
        return nil
    }
}
