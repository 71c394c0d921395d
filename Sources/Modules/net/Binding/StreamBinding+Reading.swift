internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

extension StreamBinding {
    static let maxLine = 1 << 20
    static let maxAll = 16 << 20

    static let reading: [Library.Entry] = [
        .init("read") { stream($0).run { (stream, call) throws(Misuse) in try read(stream, call) } },
        .init("read_exactly") {
            stream($0).run { (stream, call) throws(Misuse) in
                let count = try call.argument(2, Count.self)
                guard call.count == 2, count > 0 else { return try readExactly(stream, call, count) }
                return try start(stream, call, .exactly(count), "stream:read_exactly", .max, stream.timeout)
            }
        },
        .init("read_line") {
            stream($0).run { (stream, call) throws(Misuse) in
                if call.count > 1 { return try readLine(stream, call) }
                return try start(stream, call, .line, "stream:read_line", maxLine, stream.timeout)
            }
        },
        .init("read_frame") { stream($0).run { (stream, call) throws(Misuse) in try readFrame(stream, call) } },
        // Steps of `stream:lines()` and `stream:chunks()`, with their options.
        .init("next_line", saidAs: "stream:lines") {
            stream($0).run { (stream, call) throws(Misuse) in
                try begin(stream, call, .line, "stream:lines", 2, limit: maxLine, raises: true)
            }
        },
        .init("next_chunk", saidAs: "stream:chunks") {
            stream($0).run { (stream, call) throws(Misuse) in
                try begin(stream, call, .any, "stream:chunks", 2, limit: 65536, raises: true)
            }
        },
        // `net.copy` waits until there is input for the kernel to copy.
        .init("await_input", saidAs: "net.copy") {
            stream($0).run { (stream, call) throws(Misuse) in
                try begin(stream, call, .readiness, "net.copy", 2, limit: .max)
            }
        },
        .init("read_until") {
            stream($0).run { (stream, call) throws(Misuse) in
                guard call.count == 2, let end = NotEmpty.read(call.stack, 2) else {
                    return try readUntil(stream, call)
                }
                return try start(
                    stream, call, .until(ending(end, stream.network)), "stream:read_until", maxLine, stream.timeout)
            }
        },
        // (count, timeout): returns all buffered bytes, without consuming them, once they are more than `count`.
        .init("read_more", saidAs: "stream:read_until") {
            stream($0).run { (stream, call) throws(Misuse) in
                let timeout = try call.optional(3, Seconds.self) ?? -1
                return try start(
                    stream, call, .more(try call.argument(2, Count.self)), "stream:read_until", .max, timeout)
            }
        },
        .init("drop") {
            stream($0).run { (stream, call) throws(Misuse) in
                stream.drop(try call.argument(2, Count.self))
                return 0
            }
        },
        .init("read_all") {
            stream($0).run { (stream, call) throws(Misuse) in
                try begin(stream, call, .all, "stream:read_all", 2, limit: maxAll)
            }
        },
        .init("peek") { stream($0).run { (stream, call) throws(Misuse) in try peek(stream, call) } },
        .init("buffered") { stream($0).answer { $0.buffered } },
        .init("available") { stream($0).answer { $0.available } },
        // (): a complete buffered line; with "rest", the bytes that are left without a line end. Returns nothing if the
        // caller has to wait, or if the input has ended before.
        .init("take_line", saidAs: "socket:receive") {
            stream($0).run { (stream, call) throws(Misuse) in
                try checkIsFree(stream, call)
                if stream.inputHasEnded || stream.spree >= 16 && stream.buffered == 0 { return 0 }
                guard case .bytes(let bytes)? = stream.attempt(.line, limit: maxLine) else { return 0 }
                stream.countAttempt()
                guard stream.inputHasEnded else { return call.answer(bytes) }
                guard call.stack.push(bytes), call.stack.push("rest") else { return call.raiseValue() }
                return call.values(2)
            }
        },
        .init("look") { stream($0).act { $0.look() } },
        .init("make_blocking") { stream($0).act { $0.makeBlocking() } },
        .init("share") { stream($0).act { $0.share() } },
        .init("deliver_all") { stream($0).act { $0.deliverAll() } },
    ]

    /// `peek` has no `max`: its count is the limit.
    private enum PeekOption: Int, Field {
        case timeout
        static let names: [StaticString] = ["timeout"]
    }

    enum ReadOption: Int, Field {
        case timeout, max
        static let names: [StaticString] = ["timeout", "max"]
    }

    enum Count: Parameter {
        static let expected = "an integer, 0 or more"
        static func read(_ stack: Stack, _ index: Int32) -> Int? { stack.integer(index).flatMap { $0 >= 0 ? $0 : nil } }
    }

    enum Positive: Parameter {
        static let expected = "an integer, 1 or more"
        static func read(_ stack: Stack, _ index: Int32) -> Int? { stack.integer(index).flatMap { $0 > 0 ? $0 : nil } }
    }

    enum NotEmpty: Parameter {
        static let expected = "a string that is not empty"
        static func read(_ stack: Stack, _ index: Int32) -> UnsafeRawBufferPointer? {
            stack.bytes(index).flatMap { $0.isEmpty ? nil : $0 }
        }
    }

    /// stream:read([max], [options])
    private static func read(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        var limit = 65536
        var options: Int32 = 2
        if call.count > 1 {
            if call.stack.type(2) == .string {
                let format = call.string(2) ?? ""
                let meant = format.hasSuffix("a") ? "read_all()" : "read_line()"
                throw call.wrong(2, "an integer, 1 or more (did you mean \(meant)?)")
            }
            if call.stack.type(2) != .table {
                if let max = try call.optional(2, Positive.self) { limit = max }
                options = 3
            }
        }
        return try begin(stream, call, .any, "stream:read", options, limit: limit)
    }

    /// Reads a unit, or waits for it. `options` is the index of the options table.
    static func begin(
        _ stream: Streams.Stream, _ call: Call, _ unit: Streams.Stream.Unit, _ name: StaticString, _ options: Int32,
        limit: Int, raises: Bool = false
    ) throws(Misuse) -> Int32 {
        var limit = limit
        var timeout = stream.timeout
        if call.count >= options, let fields = try call.optionalFields(options, ReadOption.self) {
            if let max = try fields[.max, Positive.self] { limit = max }
            if let seconds = try fields[.timeout, Seconds.self] { timeout = seconds }
        }
        return try start(stream, call, unit, name, limit, timeout, raises: raises)
    }

    /// Does the same without an options table.
    static func start(
        _ stream: Streams.Stream, _ call: Call, _ unit: Streams.Stream.Unit, _ name: StaticString, _ limit: Int,
        _ timeout: Int64, as pieces: Pieces = .whole, raises: Bool = false
    ) throws(Misuse) -> Int32 {
        try checkIsFree(stream, call)
        // A reader that always finds data would starve the others: after 16 reads it waits for its next turn.
        let isTired = stream.spree >= 16 && stream.buffered == 0 && stream.isOpen && call.mayWait
        if !isTired, let outcome = stream.attempt(unit, limit: limit) {
            stream.countAttempt()
            return answer(outcome, stream, call, as: pieces, raises: raises)
        }
        return wait(stream, call, unit, name, limit, timeout, as: pieces, raises: raises, isTired: isTired)
    }

    static func checkIsFree(_ stream: Streams.Stream, _ call: Call) throws(Misuse) {
        if stream.isReading {
            var place = ""
            if let fiber = Fiber(context: stream.reader) {
                let host = call.interpreter
                if let at = host.site(Call(fiber.stack.thread).site) { place = " at \(at)" }
                place = " waits in \(fiber.waitsIn)" + place
                if let made = host.site(fiber.subjectSite) { place = " made at \(made)" + place }
            }
            throw Misuse("one reader at a time: the task\(place)")
        }
        if stream.wantsDelivery { throw Misuse("its input goes to on_data") }
        if stream.isIdle { throw Misuse("it has not begun to connect: add it to a loop first") }
    }

    private static func answer(
        _ outcome: Streams.Stream.Outcome, _ stream: Streams.Stream, _ call: Call, as pieces: Pieces, raises: Bool
    ) -> Int32 {
        switch outcome {
        case .bytes(let bytes):
            return pieces == .whole
                ? call.answer(bytes) : call.answer(bytes, as: pieces, number: stream.network.which)
        case .end, .timedOut: return call.answerNil()
        case .failed(let failure):
            stream.refusal = failure
            return raises ? call.raise(failure.description) : call.fail(failure)
        }
    }

    private static func wait(
        _ stream: Streams.Stream, _ call: Call, _ unit: Streams.Stream.Unit, _ name: StaticString, _ limit: Int,
        _ timeout: Int64, as pieces: Pieces = .whole, raises: Bool, isTired: Bool
    ) -> Int32 {
        if timeout == 0, !isTired {
            stream.refusal = .timedOut
            return raises ? call.raise("timed out") : call.refuse("timed out")
        }
        switch call.beginWait(in: name, cancel: cancelRead) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            call.withHost { host in
                fiber.waitsFor =
                    Int(bitPattern: Unmanaged.passUnretained(stream).toOpaque()) | (raises ? 1 : 0)
                    | Int(pieces.rawValue) << 1
                stream.wait(unit, limit: limit, waiter: fiber.context, keepsAlive: !fiber.isBackground)
                if timeout >= 0 {
                    Waiter.of(fiber, host).limit(
                        timeout, host, keepsAlive: !stream.staysIdle, timedOut: readTimedOut)
                }
                if !host.loop.isServing(stream) { host.part(NetPart.self).enter(stream) }
            }
            if isTired { stream.signal() }
            return call.yield()
        }
    }

    private static func cancelRead(_ fiber: Fiber) {
        Waiter.cancel(fiber)
        guard let stream = fiber.waited(Streams.Stream.self) else { return }
        stream.cancelRead()
        stream.part?.leave(stream)
    }

    /// Puts the position of the waiting call before the text, as in errors.
    static func placed(_ text: String, _ fiber: Fiber) -> String { (fiber.stack.place.map { "\($0): " } ?? "") + text }

    private static func readTimedOut(_ fiber: Fiber, _ host: LuaHost) {
        let part = host.part(NetPart.self)
        guard let stream = fiber.waited(Streams.Stream.self), stream.cancelRead() else { return }
        part.leave(stream)
        stream.refusal = .timedOut
        if fiber.waitsFor & 1 != 0 { return host.resume(fiber, raising: placed("timed out", fiber)) }
        part.resume(fiber, .timedOut)
    }

    /// stream:peek(n, [options]): the next bytes, without taking them. The call waits until they have arrived.
    private static func peek(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        let count = try call.argument(2, Positive.self)
        let timeout = try call.optionalFields(3, PeekOption.self)?[.timeout, Seconds.self] ?? stream.timeout
        try checkIsFree(stream, call)
        if let outcome = stream.attempt(.peek(count), limit: .max) {
            return answer(outcome, stream, call, as: .whole, raises: false)
        }
        return wait(stream, call, .peek(count), "stream:peek", .max, timeout, raises: false, isTired: false)
    }
}
