package import Linux
package import Lua
internal import RunLoops

/// Seconds of scripts in the loop's nanoseconds, and back.
package enum Time {
    /// nil for NaN; infinities become very long.
    package static func nanoseconds(_ seconds: Double) -> Int64? {
        guard !seconds.isNaN else { return nil }
        // CoreFoundation's own limit for a date, about 128 years.
        let bounded = max(-4_039_289_856, min(4_039_289_856, seconds)) * 1e9
        // Up, so that nothing is early, but not because of the last bit of a decimal fraction: 1.1 s is 1,100,000,000 ns.
        return Int64((bounded - 0.001).rounded(.up))
    }

    package static func seconds(_ nanoseconds: Int64) -> Double { Double(nanoseconds) / 1e9 }

    /// Seconds with as many digits as one wants to read.
    package static func short(_ nanoseconds: Int64) -> String {
        let unit: Int64 = nanoseconds < 1_000_000 ? 1_000 : nanoseconds < 10_000_000_000 ? 100_000 : 100_000_000
        let rounded = (nanoseconds + unit / 2) / unit * unit
        let text = "\(Double(rounded) / 1e9)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}

/// A point in time, in nanoseconds of the loop's clock.
package enum Date: Parameter {
    package static let expected = "a date: a number, as of rl.now()"
    @inline(__always)
    package static func read(_ stack: Stack, _ index: Int32) -> Int64? { stack.number(index).flatMap(Time.nanoseconds) }
}

/// A duration that is not negative, in nanoseconds.
package enum Seconds: Parameter {
    package static let expected = "a number of seconds, 0 or more"
    @inline(__always)
    package static func read(_ stack: Stack, _ index: Int32) -> Int64? {
        Date.read(stack, index).flatMap { $0 < 0 ? nil : $0 }
    }
}

/// A duration between two times that something happens.
enum Interval: Parameter {
    static let expected = Seconds.expected
    static func read(_ stack: Stack, _ index: Int32) -> Int64? {
        // Smaller than the clock's unit is not zero: it would not repeat.
        Seconds.read(stack, index).map { $0 == 0 && stack.number(index) != 0 ? 1 : $0 }
    }
}

/// A mode's name.
enum ModeName: Parameter {
    static let expected = "the name of a mode"
    static func read(_ stack: Stack, _ index: Int32) -> RunLoop.Mode? {
        guard let bytes = stack.bytes(index) else { return nil }
        // Without making a string for the names that nearly every call uses.
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

/// The number of a descriptor.
package enum DescriptorNumber: Parameter {
    package static let expected = "a descriptor, or an object that has one"
    package static func read(_ stack: Stack, _ index: Int32) -> Int32? {
        stack.integer(index).flatMap { Int32(exactly: $0) }.flatMap { $0 < 0 ? nil : $0 }
    }
}

/// A string that is the same in Swift.
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

    /// The same for calls that are made often: references to the host are not counted.
    @inline(__always)
    package func withHost<Result>(_ body: (LuaHost) -> Result) -> Result { with(LuaHost.self, body) }

    /// What the system refuses: nil, "ENOENT: no such file or directory (…)", "ENOENT".
    package func fail(_ error: SystemError) -> Int32 { fail(error.message, code: error.name) }

    /// The same of a number alone.
    package func fail(errno number: Int32) -> Int32 {
        fail(SystemError("", errno: number))
    }

    /// What is asked of the world: its answer, or why it refuses.
    package func attempt<E: Refusal>(_ body: () throws(E) -> Int32) -> Int32 {
        do throws(E) { return try body() } catch { return error.fail(self) }
    }

    package func attempt<E: Refusal, A: Answer>(_ body: () throws(E) -> A) -> Int32 {
        attempt { () throws(E) -> Int32 in try body().answer(self) }
    }

    /// The same of what has no answer: true when it is done.
    package func attempt<E: Refusal>(_ body: () throws(E) -> Void) -> Int32 {
        attempt { () throws(E) -> Bool in
            try body()
            return true
        }
    }
}

extension ValueProgram {
    /// How a program has ended: "exit" and its status, or "signal" and its number.
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
    /// How an object shows itself: `timer "name" (every 1 s, made at file.lua:1)`.
    package init(_ kind: String, name: String = "", _ details: [String] = [], site: String? = nil) {
        let parts = details + (site.map { ["made at \($0)"] } ?? [])
        self = kind + (name.isEmpty ? "" : " \"\(name)\"")
        if !parts.isEmpty { self += " (\(parts.joined(separator: ", ")))" }
        self = shownInLine
    }
}

/// An error that says why the world refuses.
package protocol Refusal: Error {
    func fail(_ call: Call) -> Int32
}

extension SystemError: Refusal {
    package func fail(_ call: Call) -> Int32 { call.fail(self) }
}
