internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// For the runner: the state of the process that tests may change, and properties of the process.
enum ProcessStateBinding {
    static let functions: [Library.Entry] = [
        .init("note_state") { Call.act($0) { _ in WorkerProcess.noteState() } },
        // restore_state(): returns descriptions of the state that has changed since note_state, and restores it.
        .init("restore_state") { Call($0).answer(ValueProgram(list: WorkerProcess.restoreState())) },
        // set_zone(name): sets the time zone of os.date; without a name, the system's.
        .init("set_zone") { Call.act($0) { WorkerProcess.setZone($0.string(1)) } },
        .init("identity") { identity(Call($0)) },
        // current_directory(): returns its path, or nil if it has been removed.
        .init("current_directory") { Call($0).answer(System.realPath(of: ".")) },
        .init("make_directory") { makeDirectory(Call($0)) },
        // temporary_directory(): returns the path of a new directory, which only this user can open.
        .init("temporary_directory") {
            Call($0).attempt { () throws(SystemError) -> String in try Directory.makeTemporary("rlhost-test") }
        },
        .init("write_file") { writeFile(Call($0)) },
        .init("open_report") { openReport(Call($0)) },
        .init("put") { put(Call($0)) },
        // watch_signals(): returns a descriptor from which next_signal reads.
        .init("watch_signals") {
            Call($0).attempt { () throws(SystemError) in Int(try Signals.watch(quits: true).release()) }
        },
        .init("next_signal") { Call($0).answer(Int(Signals.take(Int32(Call($0).integer(1) ?? -1)) ?? 0)) },
        // note_assertion(text)
        .init("note_assertion") {
            Call.act($0) { call in if let text = call.string(1) { assertions.withLock { _ = $0.insert(text) } } }
        },
        .init("is_assertion") { Call.answer($0) { call in assertions.withLock { $0.contains(call.string(1) ?? "") } } },
        .init("cores") { Call($0).answer(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) },
    ]

    /// The texts of assertions that have failed in threads. The texts are kept because an assertion reaches other
    /// threads only as its text.
    private static let assertions = Lock<Set<String>>([])

    /// Called at a reset, when no code needs them any more.
    static func forgetAssertions() { assertions.withLock { $0 = [] } }

    /// identity(path): returns a text that identifies the file, whatever its name; nil if it does not exist.
    private static func identity(_ call: Call) -> Int32 {
        var status = stat()
        guard let path = call.string(1), path.withAnyCString({ stat($0, &status) }) == 0 else {
            return call.answerNil()
        }
        return call.answer("\(status.st_dev):\(status.st_ino)")
    }

    /// make_directory(path): returns true, also if the directory exists, or nil and an error.
    private static func makeDirectory(_ call: Call) -> Int32 {
        guard let path = call.string(1) else { return call.answerNil() }
        return path.withAnyCString { mkdir($0, 0o700) } == 0 || errno == EEXIST
            ? call.answer(true) : call.fail(errno: errno)
    }

    /// write_file(path, text): returns true, or nil and an error. Replaces the whole file, or leaves it as it was.
    private static func writeFile(_ call: Call) -> Int32 {
        guard let path = call.string(1), let bytes = call.bytes(2) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) -> Void in
            let file = try OutputFile(replacing: path.cBytes, named: path, mode: 0o666)
            try file.write(UnsafeRawBufferPointer(bytes))
            try file.putInPlace()
        }
    }

    /// open_report(path): returns a descriptor, which `close` closes, or nil and an error. The path leads to the new
    /// file from now on, so that an old report cannot be mistaken for the report of a killed run.
    private static func openReport(_ call: Call) -> Int32 {
        guard let path = call.string(1) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) -> Int in
            let file = try OutputFile(replacing: path.cBytes, named: path, mode: 0o666)
            try file.putInPlace()
            return Int(file.descriptor.release())
        }
    }

    /// put(fd, text): writes the whole text. Returns true, or nil and an error.
    private static func put(_ call: Call) -> Int32 {
        guard let fd = call.integer(1).flatMap({ Int32(exactly: $0) }), let bytes = call.bytes(2) else {
            return call.answerNil()
        }
        let error = Descriptor.write(UnsafeRawBufferPointer(bytes), to: fd)
        return error == 0 ? call.answer(true) : call.fail(SystemError("write", errno: error))
    }
}
