internal import CLua
public import CLuaSupport

/// A call from Lua: its arguments, and the ways to answer it.
///
/// A Swift function for Lua makes one of its `lua_State *`, and returns what one of the answering methods returns.
public struct Call {
    public let thread: LuaState

    public init(_ thread: LuaState?) {
        guard let thread else { preconditionFailure("Lua calls with a state") }
        self.thread = thread
    }

    public var interpreter: Interpreter { Interpreter.of(thread) }
    public var host: UnsafeMutablePointer<cl_host> { cl_host_of(thread) }

    // MARK: Arguments

    public var count: Int32 { lua_gettop(thread) }

    public func type(_ index: Int32) -> Int32 { lua_type(thread, index) }

    public func isMissing(_ index: Int32) -> Bool { lua_type(thread, index) <= LUA_TNIL }

    /// A number, not a string that looks like one.
    public func number(_ index: Int32) -> Double? {
        lua_type(thread, index) == LUA_TNUMBER ? lua_tonumberx(thread, index, nil) : nil
    }

    /// An integer, or a float with an integer's value.
    public func integer(_ index: Int32) -> Int? {
        guard lua_type(thread, index) == LUA_TNUMBER else { return nil }
        var isInteger: Int32 = 0
        let value = lua_tointegerx(thread, index, &isInteger)
        return isInteger != 0 ? Int(value) : nil
    }

    public func boolean(_ index: Int32) -> Bool { lua_toboolean(thread, index) != 0 }

    /// A string's bytes, as long as it is on the stack.
    public func bytes(_ index: Int32) -> UnsafeRawBufferPointer? {
        guard lua_type(thread, index) == LUA_TSTRING else { return nil }
        var length = 0
        let text = lua_tolstring(thread, index, &length)
        return UnsafeRawBufferPointer(start: text, count: length)
    }

    public func string(_ index: Int32) -> String? { bytes(index).map { String(anyBytes: $0) } }

    /// How to call a value in a message: its kind, and what it is if that fits in.
    public func describe(_ index: Int32) -> String {
        switch lua_type(thread, index) {
        case LUA_TNONE: return "nothing"
        case LUA_TNUMBER:
            let value = lua_tonumberx(thread, index, nil)
            if value.isNaN { return "nan" }
            if let integer = integer(index) { return "\(integer)" }
            return "\(value)"
        case LUA_TSTRING:
            let text = string(index) ?? ""
            return text.utf8.count <= 40 ? "\"\(text)\"" : "a string"
        case LUA_TNIL: return "nil"
        case LUA_TBOOLEAN: return boolean(index) ? "true" : "false"
        case LUA_TUSERDATA:
            return cl_any_box_at(thread, index).map { "a \(String(cString: $0.pointee.kind.pointee.name))" }
                ?? "a userdata"
        case let type: return "a \(String(cString: lua_typename(thread, type)))"
        }
    }

    // MARK: Answers

    /// The top `count` values of the stack.
    public func values(_ count: Int32) -> Int32 { count }

    public func nothing() -> Int32 { 0 }

    public func answer(_ value: Bool) -> Int32 {
        lua_pushboolean(thread, value ? 1 : 0)
        return 1
    }

    public func answer(_ value: Double) -> Int32 {
        lua_pushnumber(thread, value)
        return 1
    }

    public func answer(_ value: Int) -> Int32 {
        lua_pushinteger(thread, lua_Integer(value))
        return 1
    }

    public func answerNil() -> Int32 {
        lua_pushnil(thread)
        return 1
    }

    public func answer(_ value: String?) -> Int32 {
        guard let value else { return answerNil() }
        return interpreter.setScratch(value) ? CL_STRING.rawValue : CL_NO_MEMORY.rawValue
    }

    /// The argument itself, for methods that chain.
    public func answerArgument(_ index: Int32) -> Int32 {
        lua_pushvalue(thread, index)
        return 1
    }

    /// Values that a program describes.
    public func answer(_ program: ValueProgram) -> Int32 {
        cl_reset(host)
        let isWritten = program.bytes.withUnsafeBytes { cl_write(host, $0.baseAddress, $0.count) != 0 }
        return isWritten ? CL_RESULTS.rawValue : CL_NO_MEMORY.rawValue
    }

    /// The userdata of a host object: made, with a reference of its own, if there is none.
    ///
    /// It is on the stack when this returns, so that the object is never owned by nobody, whatever finalizers do meanwhile.
    public func answer(_ object: AnyObject, _ kind: Kind) -> Int32 {
        push(object, kind) ? 1 : raiseValue()
    }

    /// Pushes it; returns false, with an error value there instead, when memory is out.
    public func push(_ object: AnyObject, _ kind: Kind) -> Bool {
        withExtendedLifetime(object) {
            cl_push_object(thread, Int32(kind.index), Unmanaged.passUnretained(object).toOpaque()) == LUA_OK
        }
    }

    /// Raises an error; the caller's position is put before it.
    public func raise(_ message: String) -> Int32 {
        interpreter.setScratch(message) ? CL_RAISE.rawValue : CL_NO_MEMORY.rawValue
    }

    /// Raises the value on top of the stack.
    public func raiseValue() -> Int32 { CL_RAISE_VALUE.rawValue }

    public func raiseOutOfMemory() -> Int32 { CL_NO_MEMORY.rawValue }

    /// What the world refuses: nil, "ENOENT: no such file or directory", "ENOENT".
    public func fail(_ message: String, code: String) -> Int32 {
        var program = ValueProgram()
        program.appendNil()
        program.append("\(code): \(message)")
        program.append(code)
        return answer(program)
    }

    /// nil and a reason.
    public func refuse(_ reason: String) -> Int32 {
        var program = ValueProgram()
        program.appendNil()
        program.append(reason)
        return answer(program)
    }

    /// Calls the function below the topmost `arguments` values, once no Swift frame is in the way; its results are the
    /// answer. It may wait.
    public func call(arguments: Int32) -> Int32 { CL_CALL.rawValue - arguments }

    /// The task waits, as `Interpreter.beginWait` was told.
    public func yield() -> Int32 { CL_YIELD.rawValue }
}

/// Describes values to be made in Lua, where making them may fail, once no Swift frame is in the way.
public struct ValueProgram {
    public private(set) var bytes: [UInt8] = []

    public init() {}

    private mutating func tag(_ tag: cl_tag) { bytes.append(UInt8(truncatingIfNeeded: tag.rawValue)) }

    private mutating func raw<T>(_ value: T) { withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) } }

    public mutating func appendNil() { tag(CL_NIL) }
    public mutating func append(_ value: Bool) { tag(value ? CL_TRUE : CL_FALSE) }

    public mutating func append(_ value: Int) {
        tag(CL_INTEGER)
        raw(Int64(value))
    }

    public mutating func append(_ value: Double) {
        tag(CL_NUMBER)
        raw(value)
    }

    public mutating func append(_ value: String) {
        tag(CL_TEXT)
        value.withAnyBytes { text in
            raw(UInt64(text.count))
            bytes.append(contentsOf: text)
        }
    }

    public mutating func append(_ value: String?) {
        if let value { append(value) } else { appendNil() }
    }

    public mutating func append(_ value: Double?) {
        if let value { append(value) } else { appendNil() }
    }

    /// An object that is anchored.
    public mutating func append(slot: UInt32) {
        tag(CL_ANCHORED)
        raw(slot)
    }

    /// A table; `body` appends its fields.
    public mutating func table(_ body: (inout ValueProgram) -> Void) {
        tag(CL_TABLE)
        raw(UInt32(0))
        raw(UInt32(0))
        body(&self)
    }

    /// A field of the table being described: `value` appends one value.
    public mutating func field(_ name: String, _ value: (inout ValueProgram) -> Void) {
        append(name)
        value(&self)
        tag(CL_SET)
    }

    public mutating func field(_ index: Int, _ value: (inout ValueProgram) -> Void) {
        append(index)
        value(&self)
        tag(CL_SET)
    }

    /// The next element of the array being described.
    public mutating func element(_ value: (inout ValueProgram) -> Void) {
        value(&self)
        tag(CL_APPEND)
    }
}
