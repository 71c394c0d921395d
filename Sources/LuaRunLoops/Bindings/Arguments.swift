internal import CLuaSupport
internal import Lua
internal import RunLoops

/// Numbers and names from scripts, checked before they become Swift's.
extension Call {
    /// Nanoseconds of a number of seconds. nil for what is no number at all, NaN included; infinities become very long.
    func nanoseconds(_ index: Int32) -> Int64? { number(index).flatMap(Self.nanoseconds) }

    static func nanoseconds(_ seconds: Double) -> Int64? {
        guard !seconds.isNaN else { return nil }
        // CoreFoundation's own limit for a date, about 128 years.
        let bounded = max(-4_039_289_856, min(4_039_289_856, seconds)) * 1e9
        // Up, so that nothing is early, but not because of the last bit of a decimal fraction: 1.1 s is 1,100,000,000 ns.
        return Int64((bounded - 0.001).rounded(.up))
    }

    static func seconds(_ nanoseconds: Int64) -> Double { Double(nanoseconds) / 1e9 }

    /// A duration that is not negative.
    func duration(_ index: Int32) -> Int64? { nanoseconds(index).flatMap { $0 < 0 ? nil : $0 } }

    /// A mode's name.
    func mode(_ index: Int32) -> RunLoop.Mode? {
        guard let bytes = bytes(index) else { return nil }
        // Without making a string for the names that nearly every call uses.
        if bytes.count == 7, bytes.elementsEqual("default".utf8) { return .default }
        if bytes.count == 6, bytes.elementsEqual("common".utf8) { return .common }
        return RunLoop.Mode(rawValue: String(anyBytes: bytes))
    }

    /// One name, or an array of them; absent: `otherwise`.
    func modes(_ index: Int32, otherwise: RunLoop.Mode) -> [RunLoop.Mode]? {
        if isMissing(index) { return [otherwise] }
        if let mode = mode(index) { return [mode] }
        guard type(index) == LUA_TTABLE, lua_checkstack(thread, 2) != 0 else { return nil }
        let index = lua_absindex(thread, index)
        var modes: [RunLoop.Mode] = []
        for i in 0..<lua_rawlen(thread, index) {
            lua_rawgeti(thread, index, lua_Integer(i + 1))
            defer { cl_pop(thread, 1) }
            guard let mode = mode(-1) else { return nil }
            modes.append(mode)
        }
        return modes
    }

    /// A name may be a number, as nearly everywhere in Lua where a string is expected.
    func isName(_ index: Int32) -> Bool { type(index) == LUA_TSTRING || type(index) == LUA_TNUMBER }

    func name(_ index: Int32) -> String {
        if let text = string(index) { return text }
        if let integer = integer(index) { return "\(integer)" }
        return number(index).map { "\($0)" } ?? ""
    }

    /// For a method that was not called on what it belongs to.
    func wrongSelf(_ function: StaticString, _ kind: Kind) -> Int32 {
        raise("\(function): a \(kind.name) is expected as self, got \(describe(1)); call it with a colon")
    }

    /// - Parameter index: on the stack, where a method has its object at 1. In the message that does not count, as in Lua's.
    func wrongArgument(_ function: StaticString, _ index: Int32, _ expected: String) -> Int32 {
        let isMethod = function.withUTF8Buffer { $0.contains(UInt8(ascii: ":")) }
        return raise(
            "\(function): argument #\(isMethod ? index - 1 : index) must be \(expected), got \(describe(index))")
    }

    var luaHost: LuaHost { LuaHost.running(thread) }

    /// The same for calls that are made often: references to the host are not counted.
    func withHost<Result>(_ body: (LuaHost) -> Result) -> Result {
        // It outlives all calls. Set before any Lua code can run.
        unsafe Unmanaged<LuaHost>.fromOpaque(host.pointee.swift)._withUnsafeGuaranteedRef(body)
    }
}
