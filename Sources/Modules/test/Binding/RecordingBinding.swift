internal import Linux
internal import Lua
internal import LuaRunLoops
internal import LuaTracing

/// The recordings of tests, for the runner.
enum RecordingBinding {
    static let functions: [Library.Entry] = [
        .init("begin_recording") { begin(Call($0)) },
        .init("end_recording") { Call.act($0) { TestRecording.end($0.luaHost) } },
        .init("write_recording") { write(Call($0)) },
    ]

    /// begin_recording(path, title): the path and title of the recording if it is written because the process dies.
    private static func begin(_ call: Call) -> Int32 {
        guard let path = call.string(1), let title = call.string(2) else {
            return call.raise("begin_recording: wrong arguments")
        }
        TestRecording.begin(call.luaHost, path: path, title: title)
        return call.nothing()
    }

    /// write_recording(path, title): returns true, or nil and an error.
    private static func write(_ call: Call) -> Int32 {
        guard let path = call.string(1), let title = call.string(2) else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in try TestRecording.write(to: path, title: title) }
    }
}
