internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The native functions of `runloop.log`, which is written in Lua.
enum LogBinding {
    static let functions = Library(
        "runloop.log.",
        [
            .init("write") { Call.run($0) { call throws(Misuse) in try write(call) } },
            .init("rotate") { Call.run($0) { call throws(Misuse) in try LogRotation.write(call) } },
            .init("append") { Call.run($0) { call throws(Misuse) in try append(call) } },
            .close,
            .init("is_journal") { Call.run($0) { call throws(Misuse) in try isJournal(call) } },
            .init("wants_color") { Call.run($0) { call throws(Misuse) in try wantsColor(call) } },
            .init("wall_clock") { Call.run($0) { call in call.answer(call.luaHost.wallClock) } },
        ])

    /// Writes a line with one system call, so that lines of several processes do not mix. If the log is the standard
    /// output, a lost line changes the exit status, as lost output of `print` does.
    private static func write(_ call: Call) throws(Misuse) -> Int32 {
        let descriptor = try call.number32()
        let failure = Descriptor.write(try call.argument(2, Bytes.self), to: descriptor)
        if failure == 0 { return call.answer(true) }
        StandardStreams.noteToldLoss(descriptor, errno: failure)
        return call.fail(SystemError("write", "", errno: failure))
    }

    private static func append(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        return call.attempt { () throws(SystemError) in
            Int(try OutputFile.appending(to: path.cBytes, named: path, mode: 0o640).release())
        }
    }

    /// Returns whether a descriptor is the journal's stream, as JOURNAL_STREAM says. Lines to the journal may begin
    /// with their priority.
    private static func isJournal(_ call: Call) throws(Misuse) -> Int32 {
        var status = stat()
        guard let stream = ProcessEnvironment["JOURNAL_STREAM"], fstat(try call.number32(), &status) == 0 else {
            return call.answer(false)
        }
        return call.answer(stream == "\(status.st_dev):\(status.st_ino)")
    }

    private static func wantsColor(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try call.number32()
        let isPlain =
            ProcessEnvironment["NO_COLOR"].map { !$0.isEmpty } ?? false || ProcessEnvironment["TERM"] == "dumb"
        return call.answer(!isPlain && Descriptor.isTerminal(fd))
    }
}
