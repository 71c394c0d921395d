public import CLua
public import CLuaSupport

/// A call from Lua: its arguments, and the ways to return results.
///
/// A Swift function for Lua makes a `Call` from its `lua_State *`, and returns the result of one of the methods under
/// "Answers".
public struct Call {
    public let thread: LuaState

    @inlinable @inline(__always)
    public init(_ thread: LuaState?) {
        guard let thread else { preconditionFailure("Lua calls with a state") }
        self.thread = thread
    }

    public var stack: Stack { @inlinable @inline(__always) get { Stack(thread) } }
    public var interpreter: Interpreter { Interpreter.of(thread) }
    @inlinable var state: UnsafeMutablePointer<cl_state> { @inline(__always) get { cl_state_of(thread) } }

    /// Calls `body` with the interpreter, without counting references to it.
    @inlinable @inline(__always)
    public func with<I: Interpreter, Result>(_: I.Type, _ body: (I) -> Result) -> Result {
        // The interpreter outlives all calls, and `swift` is set before any Lua code can run. All interpreters of a
        // program have the same class.
        unsafe Unmanaged<I>.fromOpaque(state.pointee.swift)._withUnsafeGuaranteedRef(body)
    }

    // MARK: The function

    /// The function's name as scripts write it: "timer:fire", "rl.after".
    public var function: String {
        guard let entry = cl_running(thread) else { return "?" }
        if let name = entry.pointee.said_as { return String(cString: name) }
        let name = String(cString: entry.pointee.name)
        if let kind = entry.pointee.self_kind { return "\(String(cString: kind.pointee.name)):\(name)" }
        return entry.pointee.library.map { String(cString: $0) + name } ?? name
    }

    /// The object on which the method is called, or the new object that the constructor must fill.
    public var receiver: Box {
        @inlinable @inline(__always)
        get {
            guard let box = state.pointee.receiver else { preconditionFailure("trampolines call methods on objects") }
            return Box(box)
        }
    }

    /// The place of the script's call, for `Interpreter.site`.
    public var site: UInt32 { @inlinable @inline(__always) get { cl_site_of_caller(thread) } }

    /// Returns a stack index as a script counts arguments: neither a method's object nor a constructor's new object
    /// counts.
    public func number(ofArgument index: Int32) -> Int32 {
        guard let entry = cl_running(thread) else { return index }
        return index - (entry.pointee.self_kind == nil ? 0 : 1) - (entry.pointee.makes == nil ? 0 : 1)
    }

    // MARK: Arguments

    public var count: Int32 { @inlinable @inline(__always) get { lua_gettop(thread) } }
    public func isMissing(_ index: Int32) -> Bool { stack.isMissing(index) }
    public func number(_ index: Int32) -> Double? { stack.number(index) }
    public func integer(_ index: Int32) -> Int? { stack.integer(index) }
    public func boolean(_ index: Int32) -> Bool { stack.boolean(index) }
    public func bytes(_ index: Int32) -> UnsafeRawBufferPointer? { stack.bytes(index) }
    public func string(_ index: Int32) -> String? { stack.string(index) }
    public func describe(_ index: Int32) -> String { stack.describe(index) }

    // MARK: Answers

    /// Returns the top `count` values of the stack.
    @inlinable @inline(__always)
    public func values(_ count: Int32) -> Int32 { count }

    @inlinable @inline(__always)
    public func nothing() -> Int32 { 0 }

    @inlinable @inline(__always)
    public func answer(_ value: Bool) -> Int32 {
        lua_pushboolean(thread, value ? 1 : 0)
        return 1
    }

    @inlinable @inline(__always)
    public func answer(_ value: Double) -> Int32 {
        lua_pushnumber(thread, value)
        return 1
    }

    @inlinable @inline(__always)
    public func answer(_ value: Int) -> Int32 {
        lua_pushinteger(thread, lua_Integer(value))
        return 1
    }

    @inlinable @inline(__always)
    public func answerNil() -> Int32 {
        lua_pushnil(thread)
        return 1
    }

    public func answer(_ value: String?) -> Int32 {
        guard let value else { return answerNil() }
        return interpreter.setScratch(value) ? CL_STRING.rawValue : CL_NO_MEMORY.rawValue
    }

    /// Returns a string of these bytes, which must exist until this function has returned.
    @inlinable
    public func answer(_ bytes: UnsafeRawBufferPointer) -> Int32 {
        state.pointee.bytes_start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
        state.pointee.bytes_length = bytes.count
        return CL_BYTES.rawValue
    }

    /// Stores the object and its creation site in the constructor's new userdata, and returns the userdata.
    public func answerConstructed(_ object: AnyObject) -> Int32 {
        let box = receiver
        box.hold(object)
        box.site = site
        return answerArgument(1)
    }

    /// Returns a string of a copy of these bytes, which may be freed before the function returns.
    public func answer(copyOf bytes: UnsafeRawBufferPointer) -> Int32 {
        cl_reset(state)
        return cl_write(state, bytes.baseAddress, bytes.count) != 0 ? CL_STRING.rawValue : CL_NO_MEMORY.rawValue
    }

    /// Returns the argument itself, for methods that chain.
    @inlinable
    public func answerArgument(_ index: Int32) -> Int32 {
        lua_pushvalue(thread, index)
        return 1
    }

    /// Returns the values that a program describes. The program must not name an object, since nothing would keep the
    /// object alive while the values are made.
    public func answer(_ program: ValueProgram) -> Int32 {
        cl_reset(state)
        let isWritten = program.bytes.withUnsafeBytes { cl_write(state, $0.baseAddress, $0.count) != 0 }
        return isWritten ? CL_RESULTS.rawValue : CL_NO_MEMORY.rawValue
    }

    /// Returns the userdata of a Swift object that all threads share.
    public func answer(_ object: AnyObject, _ kind: Kind) -> Int32 { stack.push(object, kind) ? 1 : raiseValue() }

    /// Raises an error, with the caller's position in front.
    public func raise(_ message: String) -> Int32 {
        interpreter.setScratch(message) ? CL_RAISE.rawValue : CL_NO_MEMORY.rawValue
    }

    /// Raises an error, with the caller's position and the function's name in front.
    public func raise(_ misuse: Misuse) -> Int32 {
        misuse.isForMemory ? raiseOutOfMemory() : raise("\(function): \(misuse.message)")
    }

    /// Raises the value on top of the stack.
    public func raiseValue() -> Int32 { CL_RAISE_VALUE.rawValue }

    public func raiseOutOfMemory() -> Int32 { CL_NO_MEMORY.rawValue }

    /// Returns a failure of the outside world: nil, "ENOENT: no such file or directory", "ENOENT".
    public func fail(_ message: String, code: String) -> Int32 { fail("\(code): \(message)", plainly: code) }

    /// Returns such a failure whose message already contains the code.
    public func fail(_ message: String, plainly code: String) -> Int32 {
        var program = ValueProgram()
        program.appendNil()
        program.append(message)
        program.append(code)
        return answer(program)
    }

    /// Returns nil and a reason.
    public func refuse(_ reason: String) -> Int32 {
        var program = ValueProgram()
        program.appendNil()
        program.append(reason)
        return answer(program)
    }

    /// After this Swift function has returned, calls the function below the topmost `arguments` values, and returns
    /// that function's results. The called function may wait.
    public func call(arguments: Int32) -> Int32 { CL_CALL.rawValue - arguments }

    /// Lets the task wait, after `Interpreter.beginWait`.
    public func yield() -> Int32 { CL_YIELD.rawValue }
}
