internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// What tests change of their process, for the runner to put back; and what the runner asks about its own.
enum ProcessStateBinding {
    static let functions: [Library.Entry] = [
        .init("note_state") {
            WorkerProcess.noteState()
            return Call($0).nothing()
        },
        .init("restore_state") { restore(Call($0)) },
        .init("set_zone") { setZone(Call($0)) },
        .init("identity") { identity(Call($0)) },
        .init("current_directory") { currentDirectory(Call($0)) },
        .init("make_directory") { makeDirectory(Call($0)) },
        .init("watch_signals") { watchSignals(Call($0)) },
        .init("next_signal") { Call($0).answer(Int(Signals.take(Int32(Call($0).integer(1) ?? -1)) ?? 0)) },
        .init("note_assertion") { noteAssertion(Call($0)) },
        .init("is_assertion") { call in
            let call = Call(call)
            return call.answer(assertions.withLock { $0.contains(call.string(1) ?? "") })
        },
        .init("cores") { Call($0).answer(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) },
    ]

    /// The texts of assertions that have failed in threads: that is all that arrives of them elsewhere.
    private static let assertions = Lock<Set<String>>([])

    /// note_assertion(text)
    private static func noteAssertion(_ call: Call) -> Int32 {
        guard let text = call.string(1) else { return call.nothing() }
        assertions.withLock { _ = $0.insert(text) }
        return call.nothing()
    }

    /// Nobody is left to ask for them.
    static func forgetAssertions() { assertions.withLock { $0 = [] } }

    /// restore_state(): what has changed since note_state.
    private static func restore(_ call: Call) -> Int32 {
        var program = ValueProgram()
        program.table { table in for text in WorkerProcess.restoreState() { table.element { $0.append(text) } } }
        return call.answer(program)
    }

    /// set_zone(name): the time zone that os.date tells; nothing: that of the system.
    private static func setZone(_ call: Call) -> Int32 {
        WorkerProcess.setZone(call.string(1))
        return call.nothing()
    }

    /// identity(path): what tells the file from all others, whatever its name; nil if there is none.
    private static func identity(_ call: Call) -> Int32 {
        var status = stat()
        guard let path = call.string(1), path.withAnyCString({ stat($0, &status) }) == 0 else {
            return call.answerNil()
        }
        return call.answer("\(status.st_dev):\(status.st_ino)")
    }

    /// current_directory(): its path; nothing if it is gone.
    private static func currentDirectory(_ call: Call) -> Int32 {
        guard let path = getcwd(nil, 0) else { return call.nothing() }
        defer { free(path) }
        return call.answer(String(anyBytes: path))
    }

    /// make_directory(path): true, or nil and why not. One that is there is as good.
    private static func makeDirectory(_ call: Call) -> Int32 {
        guard let path = call.string(1) else { return call.answerNil() }
        return path.withAnyCString { mkdir($0, 0o700) } == 0 || errno == EEXIST
            ? call.answer(true) : call.fail(errno: errno)
    }

    /// watch_signals(): a descriptor from which next_signal reads.
    private static func watchSignals(_ call: Call) -> Int32 {
        do throws(SystemError) {
            return call.answer(Int(try Signals.watch(quits: true).release()))
        } catch {
            return call.fail(error)
        }
    }
}
