public import CLua
public import CLuaSupport

/// The type of a value on a stack.
public struct ValueType: Equatable, Sendable {
    @usableFromInline let number: Int32
    @inlinable init(_ number: Int32) { self.number = number }

    /// The index has no value.
    public static let none = Self(LUA_TNONE)
    public static var `nil`: Self { @inlinable get { Self(LUA_TNIL) } }
    public static var boolean: Self { @inlinable get { Self(LUA_TBOOLEAN) } }
    public static var number: Self { @inlinable get { Self(LUA_TNUMBER) } }
    public static var string: Self { @inlinable get { Self(LUA_TSTRING) } }
    public static var table: Self { @inlinable get { Self(LUA_TTABLE) } }
    public static var function: Self { @inlinable get { Self(LUA_TFUNCTION) } }
    public static var userdata: Self { @inlinable get { Self(LUA_TUSERDATA) } }
}

/// The stack of a coroutine, with the operations that cannot raise.
///
/// Indices are Lua's: from 1 at the bottom of the running function, from -1 at the top. A function that Lua calls has
/// room for 20 values; call `reserve` first for more, and on other coroutines. An operation that may fail returns true
/// if it has succeeded. If it fails, it returns false and leaves an error value on top instead of the result.
public struct Stack: Hashable, @unchecked Sendable {
    // Sendable, as it is only an address. Operations are allowed on the state's thread only.
    public let thread: LuaState

    @inlinable @inline(__always)
    public init(_ thread: LuaState) { self.thread = thread }

    // MARK: Room

    /// Makes room for this many more values. Returns whether there is memory.
    @inlinable @inline(__always)
    public func reserve(_ count: Int32) -> Bool { lua_checkstack(thread, count) != 0 }

    /// The number of values, which is also the index of the topmost one. Setting it drops values, or adds nils.
    public var top: Int32 {
        @inlinable @inline(__always) get { lua_gettop(thread) }
        @inlinable @inline(__always) nonmutating set { lua_settop(thread, newValue) }
    }

    @inlinable @inline(__always)
    public func pop(_ count: Int32 = 1) { lua_settop(thread, -count - 1) }

    @inlinable @inline(__always)
    public func absolute(_ index: Int32) -> Int32 { lua_absindex(thread, index) }

    // MARK: Pushing

    /// Pushes the coroutine whose stack this is.
    public func pushThread() { lua_pushthread(thread) }

    @inlinable @inline(__always)
    public func pushNil() { lua_pushnil(thread) }

    @inlinable @inline(__always)
    public func push(_ value: Bool) { lua_pushboolean(thread, value ? 1 : 0) }

    @inlinable @inline(__always)
    public func push(_ value: Int) { lua_pushinteger(thread, lua_Integer(value)) }

    @inlinable @inline(__always)
    public func push(_ value: Double) { lua_pushnumber(thread, value) }

    /// Pushes a copy of the value at an index.
    @inlinable @inline(__always)
    public func pushCopy(of index: Int32) { lua_pushvalue(thread, index) }

    /// Pushes a string. May fail.
    public func push(_ text: String) -> Bool { text.withAnyBytes { push($0) } }

    /// Pushes a string, or nil. May fail.
    public func push(_ text: String?) -> Bool {
        if let text { return push(text) }
        pushNil()
        return true
    }

    /// Pushes a string of these bytes. May fail.
    public func push(_ bytes: UnsafeRawBufferPointer) -> Bool {
        cl_push_text(thread, bytes.assumingMemoryBound(to: CChar.self).baseAddress, bytes.count) == LUA_OK
    }

    /// Pushes the userdata of a Swift object that all threads share. If this state has none yet, makes one, which
    /// retains the object. May fail.
    public func push(_ object: AnyObject, _ kind: Kind) -> Bool {
        // Making the userdata may collect garbage, and finalizers may then run any code, so keep the object alive
        // meanwhile.
        withExtendedLifetime(object) {
            cl_push_object(thread, kind.record, Unmanaged.passUnretained(object).toOpaque()) == LUA_OK
        }
    }

    /// Pushes the one value that a program describes. May fail.
    public func push(_ program: ValueProgram) -> Bool {
        guard let state = cl_state_of(thread) else { return false }
        cl_reset(state)
        guard program.bytes.withUnsafeBytes({ cl_write(state, $0.baseAddress, $0.count) }) != 0 else {
            pushNil()
            return false
        }
        return cl_decode(thread) == LUA_OK
    }

    /// Pushes the part of `runloop` that is written in Lua, as a function. May fail.
    public func pushPrelude() -> Bool { cl_load_prelude(thread) == LUA_OK }

    /// Pushes the function that makes `rl.notifications`, which is the last argument of the prelude. May fail.
    public func pushNotifications() -> Bool { cl_load_notifications(thread) == LUA_OK }

    /// Pushes the table of functions that the parts written in Lua use. May fail.
    public func pushInternals() -> Bool { cl_push_internals(thread) == LUA_OK }

    /// Whether there is a built-in module of this name that is written in Lua.
    public static func hasModule(_ name: String) -> Bool { name.withCString { cl_has_module($0) } != 0 }

    /// Pushes a built-in module that is written in Lua, as a function. May fail.
    public func pushModule(_ name: String) -> Bool { name.withCString { cl_load_module(thread, $0) == LUA_OK } }

    /// Pushes the host's own `print`, even if the script has replaced the global.
    public func pushPrint() { cl_push_print(thread) }

    /// Pushes the text of a built-in module. May fail.
    public func pushModuleText(_ name: String) -> Bool {
        name.withCString { cl_push_module_text(thread, $0) == LUA_OK }
    }

    /// Pushes an anchored value. Only for a fiber that runs a callback: its stack begins with the table of anchors.
    @inlinable @inline(__always)
    public func pushAnchored(_ slot: UInt32) { lua_rawgeti(thread, 1, lua_Integer(slot)) }

    /// Pushes a mark for `lua_resume`: the value pushed next is raised where the coroutine waits.
    @inlinable
    public func pushRaiseMark() { lua_pushlightuserdata(thread, cl_raise_mark()) }

    /// Pushes a mark for `lua_resume` that stands for a string of these bytes, the only result of the wait. The bytes
    /// must exist until `Interpreter.resume`, which must be the next call. Cannot fail.
    @inlinable
    public func pushBytesMark(_ bytes: UnsafeRawBufferPointer) {
        let state = cl_state_of(thread)
        state?.pointee.bytes_start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
        state?.pointee.bytes_length = bytes.count
        lua_pushlightuserdata(thread, cl_bytes_mark())
    }

    /// Pushes a new, empty object of a kind. Returns nil if there is no memory, with an error on top instead.
    public func pushNew(_ kind: Kind) -> Box? {
        cl_push_new(thread, kind.record) == LUA_OK ? lua_touserdata(thread, -1).map { Box($0) } : nil
    }

    // MARK: Moving

    /// Replaces a value by a copy of another one.
    @inlinable @inline(__always)
    public func copy(_ index: Int32, to place: Int32) { lua_copy(thread, index, place) }

    /// Moves the topmost value to `index`, below the others.
    @inlinable @inline(__always)
    public func insert(at index: Int32) { lua_rotate(thread, index, 1) }

    /// Removes a value from below others.
    @inlinable @inline(__always)
    public func remove(at index: Int32) {
        lua_rotate(thread, index, -1)
        pop()
    }

    /// Moves the topmost values to another coroutine of the same state.
    @inlinable @inline(__always)
    public func move(_ count: Int32, to other: Stack) { lua_xmove(thread, other.thread, count) }

    // MARK: Looking

    @inlinable @inline(__always)
    public func type(_ index: Int32) -> ValueType { ValueType(lua_type(thread, index)) }

    @inlinable @inline(__always)
    public func isMissing(_ index: Int32) -> Bool { lua_type(thread, index) <= LUA_TNIL }

    @inlinable @inline(__always)
    public func boolean(_ index: Int32) -> Bool { lua_toboolean(thread, index) != 0 }

    /// Returns a number; nil for a string, even if Lua could convert it to a number.
    @inlinable @inline(__always)
    public func number(_ index: Int32) -> Double? {
        lua_type(thread, index) == LUA_TNUMBER ? lua_tonumberx(thread, index, nil) : nil
    }

    /// Returns an integer, also for a float that equals an integer.
    @inlinable
    public func integer(_ index: Int32) -> Int? {
        guard lua_type(thread, index) == LUA_TNUMBER else { return nil }
        var isInteger: Int32 = 0
        let value = lua_tointegerx(thread, index, &isInteger)
        return isInteger != 0 ? Int(value) : nil
    }

    /// Returns a string's bytes. The bytes are valid while the string is on the stack.
    @inlinable
    public func bytes(_ index: Int32) -> UnsafeRawBufferPointer? {
        guard lua_type(thread, index) == LUA_TSTRING else { return nil }
        var length = 0
        let text = lua_tolstring(thread, index, &length)
        return UnsafeRawBufferPointer(start: text, count: length)
    }

    public func string(_ index: Int32) -> String? { bytes(index).map { String(anyBytes: $0) } }

    /// Writes the text of the number at an index, as `tostring` makes it, to a place of at least 64 bytes. Returns the
    /// text's length.
    public func text(ofNumber index: Int32, _ place: UnsafeMutableRawPointer) -> Int {
        cl_number_text(thread, index, place.assumingMemoryBound(to: CChar.self))
    }

    /// Whether two values are the same, without metamethods.
    @inlinable @inline(__always)
    public func isSame(_ index: Int32, _ other: Int32) -> Bool { lua_rawequal(thread, index, other) != 0 }

    /// Whether two values are equal by `==`. It calls metamethods, so any code may have run. Returns nil if a
    /// metamethod has raised an error, which is then on top.
    public func isEqual(_ index: Int32, _ other: Int32) -> Bool? {
        let answer = cl_equal(thread, index, other)
        return answer < 0 ? nil : answer != 0
    }

    /// Returns a number that identifies a function, table or userdata while it lives.
    public func identity(_ index: Int32) -> UInt { UInt(bitPattern: lua_topointer(thread, index)) }

    /// Returns how messages describe a value: its kind, and its content if that is short. `runloop.misuse` does the
    /// same in Lua.
    public func describe(_ index: Int32) -> String {
        switch lua_type(thread, index) {
        case LUA_TNONE, LUA_TNIL: return "nothing"
        case LUA_TNUMBER:
            let value = lua_tonumberx(thread, index, nil)
            if value.isNaN { return "nan" }
            return withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { place in
                guard let start = place.baseAddress else { return "a number" }
                return String(anyBytes: UnsafeRawBufferPointer(start: start, count: text(ofNumber: index, start)))
            }
        case LUA_TSTRING:
            let bytes = bytes(index) ?? UnsafeRawBufferPointer(start: nil, count: 0)
            return bytes.count <= 100 ? Self.quoted(bytes) : "a string of \(bytes.count) bytes"
        case LUA_TBOOLEAN: return boolean(index) ? "true" : "false"
        case LUA_TUSERDATA: return box(index).map { "a \($0.kindName)" } ?? "a userdata"
        case let type: return "a \(String(cString: lua_typename(thread, type)))"
        }
    }

    /// Returns the bytes as Lua's `%q` writes them, on one line.
    private static func quoted(_ bytes: UnsafeRawBufferPointer) -> String {
        var text: [UInt8] = [UInt8(ascii: "\"")]
        for (place, byte) in bytes.enumerated() {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += [UInt8(ascii: "\\"), byte]
            case 10: text += Array("\\n".utf8)
            case ..<32, 127:
                // Write three digits if the next character is a digit, which would otherwise be read as part of the
                // number.
                let digits = "\(byte)"
                let isFollowed = place + 1 < bytes.count && (48...57).contains(bytes[place + 1])
                let zeros = isFollowed ? String(repeating: "0", count: 3 - digits.utf8.count) : ""
                text += Array("\\\(zeros)\(digits)".utf8)
            default: text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
        return text.withUnsafeBytes { String(anyBytes: $0) }
    }

    // MARK: Tables and objects

    /// Replaces the topmost values by a table of them. May fail.
    public func collect(_ count: Int32) -> Bool { cl_collect_values(thread, count) == LUA_OK }

    /// Pushes an element of a table, raw.
    @inlinable @inline(__always) @discardableResult
    public func pushElement(_ number: Int, of table: Int32) -> ValueType {
        ValueType(lua_rawgeti(thread, table, lua_Integer(number)))
    }

    /// Replaces the key on top by its field of a table, raw.
    @inlinable @discardableResult
    public func pushField(of table: Int32) -> ValueType { ValueType(lua_rawget(thread, table)) }

    /// Replaces the table on top by one of its fields, raw. May fail.
    public func replaceTop(withField name: String) -> Bool {
        guard push(name) else { return false }
        pushField(of: -2)
        remove(at: -2)
        return true
    }

    /// Pushes the metatable of a value. Pushes nothing and returns false if there is none.
    @inlinable
    public func pushMetatable(of index: Int32) -> Bool { lua_getmetatable(thread, index) != 0 }

    /// Returns the number of a table's elements, raw.
    @inlinable
    public func length(of table: Int32) -> Int { Int(lua_rawlen(thread, table)) }

    /// Returns the elements of an array. Calls `read` for each element, with the element on top. Returns nil if the
    /// value is not a table, or if `read` refuses an element.
    public func elements<T, Failure: Error>(
        of index: Int32, _ read: () throws(Failure) -> T?
    ) throws(Failure) -> [T]? {
        guard type(index) == .table, reserve(4) else { return nil }
        let table = absolute(index)
        var elements: [T] = []
        for number in 0..<length(of: table) {
            pushElement(number + 1, of: table)
            defer { pop() }
            guard let element = try read() else { return nil }
            elements.append(element)
        }
        return elements
    }

    /// Whether a table has elements 1, 2 … and nothing else. Needs room for two values.
    public func isList(_ table: Int32) -> Bool {
        let (table, length) = (absolute(table), length(of: table))
        lua_pushnil(thread)
        while lua_next(thread, table) != 0 {
            pop()
            guard lua_isinteger(thread, -1) != 0, let key = integer(-1), key > 0, key <= length else {
                pop()
                return false
            }
        }
        return true
    }

    /// Pushes a user value of an object of this host.
    @inlinable @inline(__always) @discardableResult
    public func pushUserValue(_ number: Int32, of object: Int32) -> ValueType {
        ValueType(lua_getiuservalue(thread, object, number))
    }

    /// Pops a value and makes it a user value of an object of this host.
    @inlinable @inline(__always)
    public func setUserValue(_ number: Int32, of object: Int32) { lua_setiuservalue(thread, object, number) }

    /// Returns the head of an object of this host, or nil for any other value.
    public func box(_ index: Int32) -> Box? { cl_any_box_at(thread, index).map { Box($0) } }

    /// Returns the head of an object of a kind, or nil for any other value.
    @inlinable
    public func box(_ index: Int32, _ kind: Kind) -> Box? { cl_box_at(thread, index, kind.record).map { Box($0) } }

    /// Returns the Swift object of an object of a kind, or nil for any other value.
    @inlinable
    public func object<T: AnyObject>(_ index: Int32, _ kind: Kind, as: T.Type) -> T? {
        guard let box = box(index, kind), box.isFilled else { return nil }
        return box.object(as: T.self)
    }

    /// Anchors the value at an index. Returns the anchor's slot, a number other than 0; or 0 if there is no memory.
    @inlinable @inline(__always)
    public func anchor(_ index: Int32) -> UInt32 { cl_anchor(thread, index) }

    // MARK: Calls

    /// Calls the function below the topmost `arguments` values. An error message gets a traceback. May fail.
    public func call(arguments: Int32, results: Int32) -> Bool { cl_call_traced(thread, arguments, results) == LUA_OK }

    /// Whether an interruption ended the latest `call` of this state.
    public var wasInterrupted: Bool { cl_state_of(thread).pointee.was_interrupted != 0 }

    /// Pops a value and returns its text, as `tostring` makes it.
    public func popText() -> String {
        cl_to_text(thread, -1)
        pop()
        return Interpreter.of(thread).scratch
    }

    /// As the number of results of a call: all of them.
    public static var all: Int32 { LUA_MULTRET }
}

extension Stack {
    /// The script's innermost line in this coroutine: "app.lua:9".
    public var place: String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(LUA_IDSIZE)) { source in
            guard let bytes = source.baseAddress else { return nil }
            let line = cl_place(thread, bytes)
            return line > 0 ? "\(String(anyBytes: UnsafePointer(bytes))):\(line)" : nil
        }
    }
}
