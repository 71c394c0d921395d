internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// Reads of units that have options: these functions are separate, so that the calls without options stay small.
extension StreamBinding {
    // MARK: Bytes and lines

    private enum ExactOption: Int, Field {
        case timeout, max, skip
        static let names: [StaticString] = ["timeout", "max", "skip"]
    }

    /// stream:read_exactly(count, options)
    @inline(never)
    static func readExactly(_ stream: Streams.Stream, _ call: Call, _ count: Int) throws(Misuse) -> Int32 {
        var limit = Int.max
        var timeout = stream.timeout
        var ending: Streams.Stream.Ending?
        if let quick = call.quickOptions(3, third: .skip), quick.isAbsent || quick.isText {
            if let max = quick.max { limit = max }
            timeout = quick.timeout.flatMap(Time.nanoseconds) ?? timeout
            if quick.isText { ending = self.ending(quick.text, stream.network) }
        } else if let fields = try call.optionalFields(3, ExactOption.self) {
            if let max = try fields[.max, Positive.self] { limit = max }
            if let seconds = try fields[.timeout, Seconds.self] { timeout = seconds }
            if fields.has(.skip) { ending = try self.ending(fields, stream.network, call) }
        }
        if count > limit {
            try checkIsFree(stream, call)
            return call.fail(
                StreamFailure(
                    "EMSGSIZE", "\(count) bytes are more than the \(limit) that are allowed (\(stream.subject))"))
        }
        if let ending, ending.count > 0 {
            return try start(stream, call, .exactlyAnd(count, ending), "stream:read_exactly", limit, timeout)
        }
        if count == 0 { return try readNothing(stream, call) }
        return try start(stream, call, .exactly(count), "stream:read_exactly", limit, timeout)
    }

    @inline(never)
    static func readNothing(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        try checkIsFree(stream, call)
        return call.answer("")
    }

    private enum Skip: Parameter {
        static let expected = "a text, or a number of bytes, 0 or more"
        static func read(_ stack: Stack, _ index: Int32) -> Int? { Count.read(stack, index) }
    }

    /// Returns the text or the number of bytes to skip. The result is kept, since a program skips the same in most of
    /// its reads.
    private static func ending(
        _ fields: Fields<ExactOption>, _ network: Network, _ call: Call
    ) throws(Misuse) -> Streams.Stream.Ending {
        if let bytes = call.stack.bytes(fields.index(.skip)) { return ending(bytes, network) }
        let count = try fields.required(.skip, Skip.self)
        let last = network.lastEnding
        if last.text.isEmpty, last.count == count { return last }
        network.lastEnding = Streams.Stream.Ending(count: count)
        return network.lastEnding
    }

    static func ending(_ bytes: UnsafeRawBufferPointer, _ network: Network) -> Streams.Stream.Ending {
        let last = network.lastEnding
        if last.isText(bytes) { return last }
        network.lastEnding = Streams.Stream.Ending(text: Array(bytes))
        return network.lastEnding
    }

    private enum LineOption: Int, Field {
        case timeout, max, words
        static let names: [StaticString] = ["timeout", "max", "words"]
    }

    /// stream:read_line(options)
    @inline(never)
    static func readLine(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        var limit = maxLine
        var timeout = stream.timeout
        var pieces = Pieces.whole
        if let quick = call.quickOptions(2, third: .words), quick.isAbsent || quick.isBoolean {
            if let max = quick.max { limit = max }
            timeout = quick.timeout.flatMap(Time.nanoseconds) ?? timeout
            if quick.isBoolean, quick.boolean { pieces = .words }
        } else if let fields = try call.optionalFields(2, LineOption.self) {
            if let max = try fields[.max, Positive.self] { limit = max }
            if let seconds = try fields[.timeout, Seconds.self] { timeout = seconds }
            if try fields[.words, Boolean.self] ?? false { pieces = .words }
        }
        return try start(stream, call, .line, "stream:read_line", limit, timeout, as: pieces)
    }

    // MARK: Frames

    private enum FrameOption: Int, Field {
        case timeout, max, adjust
        static let names: [StaticString] = ["timeout", "max", "adjust"]
    }

    private enum Adjustment: Parameter {
        static let expected = "an integer from -2147483648 to 2147483647"
        static func read(_ stack: Stack, _ index: Int32) -> Int32? {
            stack.integer(index).flatMap { Int32(exactly: $0) }
        }
    }

    /// stream:read_frame(format, [options])
    static func readFrame(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        guard let text = call.stack.bytes(2) else { throw call.wrong(2, "a format of string.pack") }
        let format = try FrameFormat(text)
        var limit = 1 << 20
        var timeout = stream.timeout
        var adjust: Int32 = 0
        if call.count == 2 {
            // Without options.
        } else if let quick = call.quickOptions(3, third: .adjust), quick.isAbsent || quick.integer != nil,
            let given = Int32(exactly: quick.integer ?? 0)
        {
            if let max = quick.max { limit = max }
            timeout = quick.timeout.flatMap(Time.nanoseconds) ?? timeout
            adjust = given
        } else if let fields = try call.optionalFields(3, FrameOption.self) {
            if let max = try fields[.max, Count.self] { limit = max }
            if let seconds = try fields[.timeout, Seconds.self] { timeout = seconds }
            adjust = try fields[.adjust, Adjustment.self] ?? 0
        }
        let head = Streams.Stream.FrameHead(
            size: format.size, offset: format.offset, width: format.width, isBigEndian: format.isBigEndian,
            isSigned: format.isSigned, adjust: adjust)
        stream.network.which = format.place
        return try start(stream, call, .frame(head), "stream:read_frame", limit, timeout, as: .frame)
    }

    // MARK: Up to an end

    private enum UntilOption: Int, Field {
        case timeout, max, pattern
        static let names: [StaticString] = ["timeout", "max", "pattern"]
    }

    private static let mostEnds = 64

    /// stream:read_until(text or list, [options])
    @inline(never)
    static func readUntil(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        var limit: Int?
        var timeout = stream.timeout
        var isPattern = false
        if let fields = try call.optionalFields(3, UntilOption.self) {
            limit = try fields[.max, Positive.self]
            if let seconds = try fields[.timeout, Seconds.self] { timeout = seconds }
            isPattern = try fields[.pattern, Boolean.self] ?? false
        }
        let what = isPattern ? "pattern" : "text"
        let name: StaticString = "stream:read_until"
        guard call.stack.type(2) == .table else {
            guard let end = NotEmpty.read(call.stack, 2) else {
                throw call.wrong(2, isPattern ? "a pattern that is not empty, or a list of them" : NotEmpty.expected)
            }
            if isPattern { return try readPatterns(stream, call, limit, timeout) }
            return try start(stream, call, .until(ending(end, stream.network)), name, limit ?? maxLine, timeout)
        }
        let ends = try ends(stream.network, call, what)
        if isPattern { return try readPatterns(stream, call, limit, timeout) }
        return try start(stream, call, .untilOneOf(ends), name, limit ?? maxLine, timeout, as: .which)
    }

    /// Reads the list that is argument 1. The result is kept, since a program uses the same list in most of its reads.
    private static func ends(
        _ network: Network, _ call: Call, _ what: String
    ) throws(Misuse) -> Streams.Stream.Ends {
        let stack = call.stack
        let count = stack.length(of: 2)
        guard 1...mostEnds ~= count else {
            throw Misuse("argument #1 must be a list of 1 to \(mostEnds) \(what)s, got \(count)")
        }
        let last = network.lastEnds
        var texts: [[UInt8]] = []
        var isSame = last.texts.count == count
        for i in 0..<count {
            stack.pushElement(i + 1, of: 2)
            defer { stack.pop() }
            guard let bytes = stack.bytes(-1), !bytes.isEmpty else {
                throw Misuse(
                    "element \(i + 1) of argument #1 must be a \(what) that is not empty, got \(stack.describe(-1))")
            }
            if isSame, last.texts[i].elementsEqual(bytes) { continue }
            if isSame { texts = Array(last.texts[..<i]) }
            isSame = false
            texts.append(Array(bytes))
        }
        if !isSame { network.lastEnds = Streams.Stream.Ends(texts) }
        return network.lastEnds
    }

    /// Calls `runloop.net.patterns` with the stream, the patterns, the limit and the time limit.
    private static func readPatterns(
        _ stream: Streams.Stream, _ call: Call, _ limit: Int?, _ timeout: Int64
    ) throws(Misuse) -> Int32 {
        try checkIsFree(stream, call)
        let stack = call.stack
        let host = call.luaHost
        guard stack.reserve(8) else { throw .noMemory }
        host.push(stack, slot: host.part(NetPart.self).patternReader)
        stack.pushCopy(of: 1)
        stack.pushCopy(of: 2)
        stack.push(limit ?? 65536)
        if timeout >= 0 { stack.push(Time.seconds(timeout)) } else { stack.pushNil() }
        return call.call(arguments: 4)
    }
}
