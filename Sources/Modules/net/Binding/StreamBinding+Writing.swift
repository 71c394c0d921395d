internal import CStreams
internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

extension StreamBinding {
    static let writing: [Library.Entry] = [
        .init("write") { stream($0).run { (stream, call) throws(Misuse) in try write(stream, call) } },
        // (): writes the thread's draft, which the C half of a module has prepared.
        .init("write_draft", saidAs: "stream:write") {
            stream($0).run { (stream, call) throws(Misuse) in
                let draft = streams_draft()
                let bytes = UnsafeRawBufferPointer(start: draft.bytes, count: draft.length.pointee)
                draft.length.pointee = 0
                if bytes.isEmpty { throw Misuse("there is no draft") }
                if stream.isIdle { throw Misuse("it has not begun to connect: add it to a loop first") }
                return written(stream.enqueue(bytes), stream, call)
            }
        },
        // (): makes the stream the thread's outlet, see draft.h.
        .init("outlet", saidAs: "stream:queue") {
            stream($0).run { stream, call in
                let owner = UnsafeRawPointer(bitPattern: call.stack.identity(1))
                streams_outlet().pointee = stream_outlet(
                    stream: Unmanaged.passUnretained(stream).toOpaque(), owner: owner, room: room, filled: filled)
                return call.nothing()
            }
        },
        .init("queue") { stream($0).run { (stream, call) throws(Misuse) in try queue(stream, call) } },
        .init("flush") { stream($0).run { (stream, call) throws(Misuse) in try flush(stream, call) } },
        .init("finish") {
            stream($0).run { stream, call in
                if !stream.isOpen { return call.fail(closed(stream)) }
                stream.finish()
                return call.answer(true)
            }
        },
    ]

    private static let room: @convention(c) (UnsafeMutableRawPointer?, Int) -> UnsafeMutableRawPointer? = {
        stream, count in
        guard let stream else { return nil }
        return Unmanaged<Streams.Stream>.fromOpaque(stream)._withUnsafeGuaranteedRef { $0.room(for: count) }
    }

    private static let filled: @convention(c) (UnsafeMutableRawPointer?, Int) -> Int64 = { stream, count in
        guard let stream else { return 0 }
        return Unmanaged<Streams.Stream>.fromOpaque(stream)._withUnsafeGuaranteedRef { stream in
            stream.filled(count)
            return Int64(stream.unsent)
        }
    }

    /// Passes all arguments to the stream as one write. Returns the failure if the stream refuses them.
    private static func enqueue(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> StreamFailure? {
        let stack = call.stack
        let top = call.count
        if top == 2, let bytes = stack.bytes(2) { return stream.enqueue(bytes) }
        if top <= Call.fewPieces + 1 {
            let count = try call.measurePieces()
            guard let place = stream.room(for: count) else { return stream.refusalToWrite ?? stream.shortOfMemory }
            call.copyPieces(to: place)
            stream.filled(count)
            return nil
        }
        // Numbers become text in local memory: as Lua strings they would need memory from Lua.
        let count = Int(top)
        return try withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: count) {
            (pieces) throws(Misuse) -> StreamFailure? in
            try withUnsafeTemporaryAllocation(byteCount: count * 64, alignment: 8) {
                (numbers) throws(Misuse) -> StreamFailure? in
                stream.enqueue(try read(call, top, pieces, numbers))
            }
        }
    }

    /// Reads the arguments into `pieces`, and the texts of numbers into `numbers`, 64 bytes for each argument.
    private static func read(
        _ call: Call, _ top: Int32, _ pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>,
        _ numbers: UnsafeMutableRawBufferPointer
    ) throws(Misuse) -> UnsafeBufferPointer<UnsafeRawBufferPointer> {
        let stack = call.stack
        var count = 0
        for index in 2..<max(2, top + 1) {
            if let bytes = stack.bytes(index) {
                pieces[count] = bytes
            } else if let start = numbers.baseAddress, stack.type(index) == .number {
                let place = start + count * 64
                pieces[count] = UnsafeRawBufferPointer(start: place, count: stack.text(ofNumber: index, place))
            } else {
                throw call.wrong(index, "a string or a number")
            }
            count += 1
        }
        return UnsafeBufferPointer(rebasing: pieces[..<count])
    }

    private static func closed(_ stream: Streams.Stream) -> StreamFailure {
        StreamFailure("EBADF", "the stream is closed (\(stream.subject))")
    }

    private static func refuse(_ failure: StreamFailure, _ stream: Streams.Stream, _ call: Call) -> Int32 {
        stream.refusal = failure
        return call.fail(failure)
    }

    /// stream:write(a, b, …)
    private static func write(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        if stream.isIdle { throw Misuse("it has not begun to connect: add it to a loop first") }
        return written(try enqueue(stream, call), stream, call)
    }

    /// Returns the result, or waits until there is room for more.
    private static func written(_ failure: StreamFailure?, _ stream: Streams.Stream, _ call: Call) -> Int32 {
        if let failure { return refuse(failure, stream, call) }
        // A writer whose peer takes everything would starve the others: after 16 writes, or four times as many bytes as
        // are sent at once, it waits for its next turn.
        if !stream.isDirty { stream.countAttempt() } else if stream.unsent == 0 { stream.countAttempt(as: 4) }
        let isTired = stream.spree >= 16 && call.mayWait
        guard stream.unsent >= stream.settings.highWater || isTired else { return call.answer(true) }
        return wait(stream, call, "stream:write", below: isTired ? .max : stream.settings.highWater, stream.timeout)
    }

    /// stream:queue(a, b, …) → bytes waiting
    private static func queue(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        if let failure = try enqueue(stream, call) ?? stream.abortIfOverfull() { return refuse(failure, stream, call) }
        return call.answer(stream.unsent)
    }

    /// stream:flush([timeout])
    private static func flush(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        let timeout = try call.optional(2, Seconds.self) ?? stream.timeout
        stream.sendNow()
        if let failure = stream.outputFailure { return refuse(failure, stream, call) }
        if stream.unsent == 0, !stream.isConnecting {
            stream.countAttempt()
            // Like a writer: see `written`.
            guard stream.spree >= 16, timeout != 0, stream.isOpen, call.mayWait else { return call.answer(true) }
            return wait(stream, call, "stream:flush", below: .max, -1)
        }
        if !stream.isOpen { return call.fail(closed(stream)) }
        return wait(stream, call, "stream:flush", below: 1, timeout)
    }

    private static func wait(
        _ stream: Streams.Stream, _ call: Call, _ name: StaticString, below limit: Int, _ timeout: Int64
    ) -> Int32 {
        if timeout == 0 { return call.refuse("timed out") }
        switch call.beginWait(in: name, cancel: cancelWrite) {
        case .refused(let answer): return answer
        case .begun(let fiber):
            call.withHost { host in
                fiber.waitsFor = Int(bitPattern: Unmanaged.passUnretained(stream).toOpaque())
                stream.waitForOutput(below: limit, waiter: fiber.context, keepsAlive: !fiber.isBackground)
                if timeout > 0 {
                    Waiter.of(fiber, host).limit(
                        timeout, host, keepsAlive: !stream.staysIdle, timedOut: writeTimedOut)
                }
                if !host.loop.isServing(stream) { host.part(NetPart.self).enter(stream) }
            }
            return call.yield()
        }
    }

    private static func cancelWrite(_ fiber: Fiber) {
        Waiter.cancel(fiber)
        fiber.waited(Streams.Stream.self)?.cancelWrite(fiber.context)
    }

    private static func writeTimedOut(_ fiber: Fiber, _ host: LuaHost) {
        if let stream = fiber.waited(Streams.Stream.self) {
            stream.cancelWrite(fiber.context)
            stream.refusal = .timedOut
        }
        host.part(NetPart.self).resume(fiber, .timedOut)
    }
}

extension Streams.Stream {
    /// Counts a read or write that did not wait. The count saturates at its maximum: one buffer may serve many reads.
    func countAttempt(as count: UInt8 = 1) { spree = spree > .max - count ? .max : spree + count }
}
