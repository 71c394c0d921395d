package import Linux
package import Lua
internal import RunLoops

/// Converts seconds of scripts into the loop's nanoseconds, and back.
package enum Time {
    /// Returns nil for NaN. Infinities become very long times.
    package static func nanoseconds(_ seconds: Double) -> Int64? {
        guard !seconds.isNaN else { return nil }
        // CoreFoundation's limit for dates, about 128 years.
        let bounded = max(-4_039_289_856, min(4_039_289_856, seconds)) * 1e9
        // Rounds up, so that nothing is early, but ignores the last bit of a decimal fraction: 1.1 s is 1,100,000,000
        // ns.
        let rounded = Int64((bounded - 0.001).rounded(.up))
        // A positive value below one nanosecond becomes one nanosecond. If it became zero, a timer would not repeat,
        // and a script that waits again and again for the rest of its time would never end in virtual time.
        return rounded == 0 && seconds > 0 ? 1 : rounded
    }

    package static func seconds(_ nanoseconds: Int64) -> Double { Double(nanoseconds) / 1e9 }

    /// Returns seconds with as many digits as are useful to a reader.
    package static func short(_ nanoseconds: Int64) -> String {
        let unit: Int64 = nanoseconds < 1_000_000 ? 1_000 : nanoseconds < 10_000_000_000 ? 100_000 : 100_000_000
        let rounded = (nanoseconds + unit / 2) / unit * unit
        let text = "\(Double(rounded) / 1e9)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}

/// A point in time, in nanoseconds of the loop's clock.
package enum Date: Parameter {
    package static let expected = "a date: a number, as rl.now() returns"
    @inline(__always)
    package static func read(_ stack: Stack, _ index: Int32) -> Int64? { stack.number(index).flatMap(Time.nanoseconds) }
}

/// A duration of 0 or more, in nanoseconds.
package enum Seconds: Parameter {
    package static let expected = "a number of seconds, 0 or more"
    @inline(__always)
    package static func read(_ stack: Stack, _ index: Int32) -> Int64? {
        Date.read(stack, index).flatMap { $0 < 0 ? nil : $0 }
    }
}

/// A mode's name.
enum ModeName: Parameter {
    static let expected = "the name of a mode"
    static func read(_ stack: Stack, _ index: Int32) -> RunLoop.Mode? {
        guard let bytes = stack.bytes(index) else { return nil }
        // Compare the two most frequent names without making a string.
        if bytes.count == 7, bytes.elementsEqual("default".utf8) { return .default }
        if bytes.count == 6, bytes.elementsEqual("common".utf8) { return .common }
        return RunLoop.Mode(rawValue: String(anyBytes: bytes))
    }
}

/// One mode's name, or an array of them.
enum ModeNames: Parameter {
    static let expected = "the name of a mode, or an array of them"
    static func read(_ stack: Stack, _ index: Int32) -> [RunLoop.Mode]? {
        if let mode = ModeName.read(stack, index) { return [mode] }
        return stack.elements(of: index) { ModeName.read(stack, -1) }
    }
}

/// A descriptor's number.
package enum DescriptorNumber: Parameter {
    package static let expected = "a descriptor, or an object that has one"
    package static func read(_ stack: Stack, _ index: Int32) -> Int32? {
        stack.integer(index).flatMap { Int32(exactly: $0) }.flatMap { $0 < 0 ? nil : $0 }
    }
}

/// A string that is valid UTF-8, so that Swift keeps it unchanged.
package enum UTF8Text: Parameter {
    package static let expected = "a string"
    package static func read(_ stack: Stack, _ index: Int32) -> String? {
        guard let bytes = stack.bytes(index), let text = stack.string(index), bytes.elementsEqual(text.utf8) else {
            return nil
        }
        return text
    }
}

extension Call {
    package var luaHost: LuaHost { LuaHost.running(thread) }

    /// Calls `body` with the host, without counting references to it: for frequent calls.
    @inline(__always)
    package func withHost<Result>(_ body: (LuaHost) -> Result) -> Result { with(LuaHost.self, body) }

    /// Returns a failure of the system: nil, "ENOENT: no such file or directory (…)", "ENOENT".
    package func fail(_ error: SystemError) -> Int32 { fail(error.message, code: error.name) }

    /// Returns a failure for an errno, without a subject.
    package func fail(errno number: Int32) -> Int32 {
        fail(SystemError("", errno: number))
    }

    /// Returns the results of `body`, or the failure that it throws.
    package func attempt<E: Refusal>(_ body: () throws(E) -> Int32) -> Int32 {
        do throws(E) { return try body() } catch { return error.fail(self) }
    }

    package func attempt<E: Refusal, A: Answer>(_ body: () throws(E) -> A) -> Int32 {
        attempt { () throws(E) -> Int32 in try body().answer(self) }
    }

    /// Returns true after `body`, or the failure that it throws.
    package func attempt<E: Refusal>(_ body: () throws(E) -> Void) -> Int32 {
        attempt { () throws(E) -> Bool in
            try body()
            return true
        }
    }
}

extension ValueProgram {
    /// Appends the end of a program: "exit" and its status, or "signal" and its number.
    package init(_ outcome: Program.Outcome, unknown: (String, Int)) {
        self.init()
        let (how, number) =
            switch outcome {
            case .exit(let status): ("exit", Int(status))
            case .signal(let signal): ("signal", Int(signal))
            case .unknown: unknown
            }
        append(how)
        append(number)
    }
}

extension String {
    /// Makes the text by which an object describes itself: `timer "name" (every 1 s, made at file.lua:1)`.
    package init(_ kind: String, name: String = "", _ details: [String] = [], site: String? = nil) {
        let parts = details + (site.map { ["made at \($0)"] } ?? [])
        self = kind + (name.isEmpty ? "" : " \"\(name)\"")
        if !parts.isEmpty { self += " (\(parts.joined(separator: ", ")))" }
        self = shownInLine
    }
}

/// An error that is a failure of the outside world, not a misuse.
package protocol Refusal: Error {
    func fail(_ call: Call) -> Int32
}

extension SystemError: Refusal {
    package func fail(_ call: Call) -> Int32 { call.fail(self) }
}
