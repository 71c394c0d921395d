internal import Lua
internal import LuaRunLoops
internal import Streams

/// The part of `net.copy` that copies within the kernel.
enum SpliceBinding {
    static let kind: Kind = Kind("splice", methods: methods, collect: Kind.drop)

    private static let methods: Library = Library(
        of: kind,
        [
            // (limit) → the number of moved bytes, 0 at the end; or false, and "input" or "output" to wait for; or
            // false alone if the kernel cannot copy; or nil, message, code.
            .init("step") {
                receiver($0, Splice.self).run { (splice, call) throws(Misuse) in
                    switch splice.step(limit: try call.argument(2, StreamBinding.Positive.self)) {
                    case .moved(let count): return call.answer(count)
                    case .waitsForInput: return wait(call, "input")
                    case .waitsForOutput: return wait(call, "output")
                    case .impossible: return call.answer(false)
                    case .failed(let failure): return call.fail(failure)
                    }
                }
            },
            // `<close>` calls this.
            .init("invalidate") { receiver($0, Splice.self).act { $0.finish() } },
        ])

    private static func wait(_ call: Call, _ what: String) -> Int32 {
        var program = ValueProgram()
        program.append(false)
        program.append(what)
        return call.answer(program)
    }

    /// (from, to) → a splice; nil if the kernel cannot copy.
    static func make(_ call: Call) throws(Misuse) -> Int32 {
        guard let from = call.stack.object(2, StreamBinding.kind, as: Streams.Stream.self) else {
            throw call.wrong(1, "a stream")
        }
        guard let to = call.stack.object(3, StreamBinding.kind, as: Streams.Stream.self) else {
            throw call.wrong(2, "a stream")
        }
        guard let splice = Splice(from: from, to: to) else { return call.answerNil() }
        return call.answerConstructed(splice)
    }
}
