import Lua
import LuaRunLoops

/// `rlhost new`: makes what a project begins with. The command is a script, `runloop.new`. See docs/cli.md.
enum NewCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery("runloop.new", functions: functions)] + Program.batteries()
    }

    private static let functions = Library([
        // Returns the annotations of all modules, one after another.
        .init("reference") { thread in
            let call = Call(thread)
            return call.stack.pushModuleText("runloop.reference") ? 1 : call.raiseValue()
        }
    ])

    static func run(_ words: ArraySlice<String>) -> Int32 {
        let hasBegun = Program.run(
            "runloop.new", Array(words), title: "new: ", batteries: batteries, ignoringEnvironment: true)
        return hasBegun ? 0 : 1
    }
}

/// `rlhost bundle`: puts a script and its modules into one file. The command is a script, `runloop.bundle`.
enum BundleCommand {
    private static let batteries: @Sendable () -> [Battery] = {
        [Battery(part: "runloop.bundle"), Battery(part: "runloop.prompt.tokens")] + Program.batteries()
    }

    static func run(_ words: ArraySlice<String>) -> Int32 {
        let hasBegun = Program.run(
            "runloop.bundle", Array(words), title: "bundle: ", batteries: batteries, ignoringEnvironment: false)
        return hasBegun ? 0 : 1
    }
}
