internal import CLuaCodecs
internal import Glibc
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The native functions of `runloop.nats`, which is written in Lua.
enum NATSBinding {
    static let functions = Library(
        [
            .native("open", nats_open),
            TaskBinding.unheld,
            .init("suspended") { Call.answer($0) { _ in seconds(of: CLOCK_BOOTTIME) - seconds(of: CLOCK_MONOTONIC) } },
            .init("identity") { Call.answer($0) { _ in identity() } },
            .init("load") { Call.answer($0) { call in load(of: call.luaHost) } },
            .init("chance") { Call.answer($0) { $0.luaHost.chance() } },
            .init("departing") { departing(Call($0)) },
            .init("departs") { departs(Call($0)) },
            .init("arrives") { arrives(Call($0)) },
        ] + LastingBinding.ofNATS)

    /// identity(): returns the names of machine and process: { host, pid }.
    private static func identity() -> ValueProgram {
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        let bytes = name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        var program = ValueProgram()
        program.table { program in
            program.field("host") { $0.append(bytes: bytes) }
            program.field("pid") { $0.append(Int(getpid())) }
        }
        return program
    }

    /// load(): returns numbers of the process, and how many tasks of this thread wait.
    private static func load(of host: LuaHost) -> ValueProgram {
        var program = ValueProgram()
        program.table { program in
            program.field("uptime") { $0.append(metrics_age()) }
            program.field("memory") { $0.append(Int(metrics_resident())) }
            program.field("connections") { $0.append(Int(metrics_connections())) }
            program.field("tasks") { $0.append(host.fibersThatWait().count) }
        }
        return program
    }

    /// Returns the time of a clock. The difference of the clocks is the time for which the machine was suspended.
    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    // MARK: Flows: the headers by which both ends record a message

    private static let hex: [UInt8] = Array("0123456789abcdef".utf8)

    /// departing(always): returns whether `departs` would return lines.
    private static func departing(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        return call.answer(loop.isRecording && (call.boolean(1) || loop.isFollowed))
    }

    /// departs(label, trace, always): Records that a message leaves. Returns the lines of the message's headers; nil if
    /// it has none. Without `always`, only messages that are recorded into a file have headers.
    ///
    /// `trace`: 32 digits of the trace to which the message belongs; nil for a new trace; false for an answer, which
    /// has no `traceparent` header.
    private static func departs(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        guard loop.isRecording, call.boolean(3) || loop.isFollowed else { return call.answerNil() }
        let message = RunLoop.Recorder.nextMessage()
        let label = call.integer(1).flatMap { UInt32(exactly: $0) } ?? 0
        guard let clock = loop.noteDeparture(label, message) else { return call.answerNil() }
        return withUnsafeTemporaryAllocation(byteCount: 128, alignment: 1) { buffer in
            var length = 0
            func add(_ text: StaticString) {
                text.withUTF8Buffer { text in
                    for byte in text {
                        buffer[length] = byte
                        length += 1
                    }
                }
            }
            func add(_ number: UInt64) {
                for shift in stride(from: 60, through: 0, by: -4) {
                    buffer[length] = hex[Int(number >> UInt64(shift) & 15)]
                    length += 1
                }
            }
            if call.isMissing(2) || call.boolean(2) {
                add("traceparent: 00-")
                if let trace = call.bytes(2), trace.count == 32 {
                    for byte in trace {
                        buffer[length] = byte
                        length += 1
                    }
                } else {
                    add(UInt64.random(in: 1...UInt64.max))
                    add(UInt64.random(in: 0...UInt64.max))
                }
                add("-")
                add(message)
                add("-01\r\n")
            }
            add("Rl-Flow: ")
            add(message)
            add(" ")
            add(clock)
            add("\r\n")
            return call.answer(copyOf: UnsafeRawBufferPointer(rebasing: buffer[..<length]))
        }
    }

    /// arrives(label, text): Records that a message has arrived, with the text of its header: its number and the
    /// sender's clock. Ignores any other text.
    private static func arrives(_ call: Call) -> Int32 {
        let loop = call.luaHost.loop
        guard loop.isRecording, let text = call.bytes(2), text.count == 33, text[16] == UInt8(ascii: " "),
            let message = number(text[..<16]), let clock = number(text[17...]), message != 0
        else { return call.nothing() }
        loop.noteArrival(call.integer(1).flatMap { UInt32(exactly: $0) } ?? 0, message, sentAt: clock)
        return call.nothing()
    }

    private static func number(_ digits: Slice<UnsafeRawBufferPointer>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }
}
