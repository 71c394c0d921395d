package import Lua
internal import RunLoops

/// Functions by which modules written in Lua record activities that last longer than a callback, such as a request.
package enum LastingBinding {
    package static let ofHTTP: [Library.Entry] = [
        .init("label") { Call.run($0) { call throws(Misuse) in try label(call, "http") } },
        .init("begins") { begins(Call($0)) },
        .init("ends") { ends(Call($0)) },
    ]

    package static let ofNATS: [Library.Entry] = [
        .init("label") { Call.run($0) { call throws(Misuse) in try label(call, "nats") } },
        .init("begins") { begins(Call($0)) },
        .init("ends") { ends(Call($0)) },
    ]

    package static let ofData: [Library.Entry] = [
        .init("label") { Call.run($0) { call throws(Misuse) in try label(call, "data") } },
        .init("begins") { begins(Call($0)) },
        .init("ends") { endsCall(Call($0)) },
        .init("mark") { mark(Call($0)) },
    ]

    package static let ofBridges: [Library.Entry] = [
        .init("label") { Call.run($0) { call throws(Misuse) in try label(call, call.string(2) ?? "") } }
    ]

    /// Longer names are cut.
    private static let longestName = 200

    /// label(name, kind): Returns a number for `begins`. Only bridges pass the kind.
    private static func label(_ call: Call, _ kind: String) throws(Misuse) -> Int32 {
        let name = String(decoding: try call.argument(1, Bytes.self).prefix(longestName), as: UTF8.self)
        return call.answer(Int(RunLoop.Recorder.label(.init(kind, name), isForeign: true)))
    }

    /// begins(label): Returns a number for `ends`; nil if nothing is recorded, or false without a label.
    private static func begins(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        guard loop.isRecording else { return call.answerNil() }
        guard let label = call.stack.integer(1).flatMap({ UInt32(exactly: $0) }) else { return call.answer(false) }
        return call.answer(Int(label) << 32 | Int(loop.noteBeginning(label)))
    }

    /// ends(number from `begins`, how rows are counted, seconds, result, whether the call has failed): Ends the record
    /// of a database call. `seconds` is how long the call waited for a connection.
    private static func endsCall(_ call: Call) -> Int32 {
        let stack = call.stack
        guard let number = stack.integer(1).map({ UInt64(bitPattern: Int64($0)) }) else { return call.nothing() }
        let rows: Int
        switch (stack.integer(2), stack.type(4)) {
        case (1, .table), (3, .table): rows = stack.length(of: 4)
        case (2, _), (3, _): rows = stack.type(4) == .nil ? 0 : 1
        default: rows = stack.integer(4) ?? 0
        }
        let waited = Int64(min(max(0, (stack.number(3) ?? 0) * 1_000_000), Double(Int32.max)))
        call.luaHost.loop.noteAnswer(number, rows: rows, waited: waited, failed: stack.boolean(5))
        return call.nothing()
    }

    /// mark(label): Records a moment. Returns nil if nothing is recorded, or false without a label.
    private static func mark(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        guard loop.isRecording else { return call.answerNil() }
        guard let label = call.stack.integer(1).flatMap({ UInt32(exactly: $0) }) else { return call.answer(false) }
        loop.recorder.pointee.mark(label)
        return call.answer(true)
    }

    /// ends(number from `begins`, result, whether the activity has failed)
    private static func ends(_ call: Call) -> Int32 {
        guard let number = call.stack.integer(1).map({ UInt64(bitPattern: Int64($0)) }) else { return call.nothing() }
        call.luaHost.loop.noteEnd(
            UInt32(truncatingIfNeeded: number), UInt32(truncatingIfNeeded: number >> 32),
            result: call.stack.integer(2) ?? 0, failed: call.stack.boolean(3))
        return call.nothing()
    }
}
