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
