internal import Glibc
internal import Linux
internal import Lua
public import LuaRunLoops
internal import RunLoops
internal import Tracing

extension Battery {
    /// `runloop.trace`, which scripts have as `rl.trace`.
    public static let trace = Battery(
        "runloop.trace", functions: TraceBinding.functions,
        prepare: { host in if !TracePart.settings.isOff { host.part(TracePart.self).begin() } })
}

/// The native functions of `rl.trace`.
enum TraceBinding {
    static let functions = Library(
        "rl.trace.",
        [
            .init("dump") { Call.run($0, dump) },
            .init("start") { Call.run($0, start) },
            .init("stop") { Call.run($0, stop) },
            .init("mark") { Call.act($0, mark) },
            .init("begin_span") { Call.act($0, beginSpan) },
            .init("end_span") { Call.act($0) { $0.luaHost.endSpan() } },
            .init("activity") { Call.answer($0) { call in activity(of: call.luaHost) } },
        ])

    private enum Path: Parameter {
        static let expected = "the path of a file: \(Recording.Format.advice)"
        static func read(_ stack: Stack, _ index: Int32) -> String? {
            guard let path = Text.read(stack, index), Recording.Format(path: path) != nil, !path.utf8.contains(0) else {
                return nil
            }
            return path
        }
    }

    /// dump(path)
    private static func dump(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Path.self)
        return call.attempt { () throws(SystemError) in try TraceNames.dump(to: path) }
    }

    private enum Option: Int, Field {
        case limit
        static let names: [StaticString] = ["limit"]
    }

    private enum Limit: Parameter {
        static let expected = "a number of bytes, 1 MB (1048576) or more"
        static func read(_ stack: Stack, _ index: Int32) -> Int? {
            Integer.read(stack, index).flatMap { $0 < Recording.Writer.leastLimit ? nil : $0 }
        }
    }

    /// start(path, {limit = …})
    private static func start(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Path.self)
        var limit = Recording.Writer.defaultLimit
        if !call.isMissing(2) { limit = try call.fields(2, Option.self)[.limit, Limit.self] ?? limit }
        if let file = TraceFile.current {
            return call.fail(TraceFile.isUnderWay(path, file))
        }
        do throws(SystemError) { _ = try TraceFile(path: path, limit: limit) } catch { return call.fail(error) }
        let host = call.luaHost
        host.part(TracePart.self).begin()
        // The other loops begin to record when they next check the setting.
        let own = host.loop.handle
        for handle in LuaHost.handlesOfThreads + [RunLoop.main].compactMap(\.self) where handle !== own {
            handle.perform { loop in (loop.userInfo as? LuaHost)?.part(TracePart.self).begin() }
        }
        return call.answer(true)
    }

    /// stop(): returns the path of the complete file; nil if there was no recording.
    private static func stop(_ call: Call) throws(Misuse) -> Int32 {
        guard let file = TraceFile.current else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in
            try file.finish()
            return file.path
        }
    }

    /// mark(text): the Lua half has made the text from its arguments.
    private static func mark(_ call: Call) throws(Misuse) {
        let text = try call.argument(1, Text.self)
        let host = call.luaHost
        guard host.loop.isRecording else { return }
        host.loop.recorder.pointee.mark(
            RunLoop.Recorder.label(.init("span", text, place: host.site(call.site) ?? "")))
    }

    /// begin_span(name)
    private static func beginSpan(_ call: Call) throws(Misuse) {
        let name = try call.argument(1, Text.self)
        let host = call.luaHost
        if host.loop.isRecording {
            host.beginSpan(.init("span", name, place: host.site(call.site) ?? ""))
        }
    }

    /// activity(): returns a table of the activity of the process's loops in the last second; it is empty if no loop is
    /// recorded. Reads the recorders, so the loops need not turn. O(records).
    private static func activity(of host: LuaHost) -> ValueProgram {
        let now = UInt64(max(0, host.loop.now.nanoseconds))
        var (passes, callbacks, awake, longest, late) = (0.0, 0.0, 0.0, UInt64(0), 0)
        var lengths: [UInt64] = []
        RunLoop.forEachRecorder { recorder, _ in
            let (records, lost) = RunLoop.Recorder.copy(recorder)
            let start = max(now - min(now, 1_000_000_000), UInt64(max(0, recorder.pointee.recordsSince)))
            let one = records.withUnsafeBytes {
                Recording.Activity($0, dropped: lost > 0, from: start, to: now, keepsLengths: true)
            }
            guard one.window > 0 else { return }
            let seconds = Double(one.window) / 1e9
            passes += Double(one.passes) / seconds
            callbacks += Double(one.lengths.count) / seconds
            awake = max(awake, Double(one.awake) / Double(one.window))
            for place in one.places.values {
                longest = max(longest, place.longest)
                late += place.late
            }
            lengths += one.lengths
        }
        lengths.sort()
        var program = ValueProgram()
        program.table { program in
            guard let last = lengths.last else { return }
            let p99 = lengths[min(lengths.count - 1, lengths.count * 99 / 100)]
            program.field("passes") { $0.append(passes) }
            program.field("callbacks") { $0.append(callbacks) }
            program.field("awake") { $0.append(awake) }
            program.field("longest") { $0.append(Double(max(longest, last)) / 1e9) }
            program.field("p99") { $0.append(Double(p99) / 1e9) }
            program.field("late") { $0.append(late) }
        }
        return program
    }
}
