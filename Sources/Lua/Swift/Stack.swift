public import CLua
public import CLuaSupport

/// What a value on a stack is.
public struct ValueType: Equatable, Sendable {
    @usableFromInline let number: Int32
    @inlinable init(_ number: Int32) { self.number = number }

    /// There is no value at that index.
    public static let none = Self(LUA_TNONE)
    public static var `nil`: Self { @inlinable get { Self(LUA_TNIL) } }
    public static var boolean: Self { @inlinable get { Self(LUA_TBOOLEAN) } }
    public static var number: Self { @inlinable get { Self(LUA_TNUMBER) } }
    public static var string: Self { @inlinable get { Self(LUA_TSTRING) } }
    public static var table: Self { @inlinable get { Self(LUA_TTABLE) } }
    public static var function: Self { @inlinable get { Self(LUA_TFUNCTION) } }
    public static var userdata: Self { @inlinable get { Self(LUA_TUSERDATA) } }
}

/// The stack of a coroutine: what can be done there without raising an error.
///
/// Indices are Lua's: from 1 at the bottom of the function that runs, from -1 at the top. A function that Lua calls has room for
/// 20 values; for more, and on other coroutines, ask `reserve` first. What may fail answers whether it has worked; then an
/// error value is on top instead of the result.
public struct Stack: Hashable, @unchecked Sendable {
    // Sendable as any address is: what is done with it belongs to the state's thread.
    public let thread: LuaState

    @inlinable @inline(__always)
    public init(_ thread: LuaState) { self.thread = thread }

    // MARK: Room

    /// Whether there is room for so many more values.
    @inlinable @inline(__always)
    public func reserve(_ count: Int32) -> Bool { lua_checkstack(thread, count) != 0 }

    /// How many values there are, which is also the index of the topmost. Setting it drops values, or adds nils.
    public var top: Int32 {
        @inlinable @inline(__always) get { lua_gettop(thread) }
        @inlinable @inline(__always) nonmutating set { lua_settop(thread, newValue) }
    }

    @inlinable @inline(__always)
    public func pop(_ count: Int32 = 1) { lua_settop(thread, -count - 1) }

    @inlinable @inline(__always)
    public func absolute(_ index: Int32) -> Int32 { lua_absindex(thread, index) }

    // MARK: Pushing

    @inlinable @inline(__always)
    public func pushNil() { lua_pushnil(thread) }

    @inlinable @inline(__always)
    public func push(_ value: Bool) { lua_pushboolean(thread, value ? 1 : 0) }

    @inlinable @inline(__always)
    public func push(_ value: Int) { lua_pushinteger(thread, lua_Integer(value)) }

    @inlinable @inline(__always)
    public func push(_ value: Double) { lua_pushnumber(thread, value) }

    /// A copy of the value at an index.
    @inlinable @inline(__always)
    public func pushCopy(of index: Int32) { lua_pushvalue(thread, index) }

    /// A string. May fail.
    public func push(_ text: String) -> Bool { text.withAnyBytes { push($0) } }

    /// A string, or nil. May fail.
    public func push(_ text: String?) -> Bool {
        if let text { return push(text) }
        pushNil()
        return true
    }

    /// A string of these bytes. May fail.
    public func push(_ bytes: UnsafeRawBufferPointer) -> Bool {
        cl_push_text(thread, bytes.assumingMemoryBound(to: CChar.self).baseAddress, bytes.count) == LUA_OK
    }

    /// The userdata of a Swift object, as all threads share it: made, with one more reference to the object, if there is none.
    /// May fail.
    public func push(_ object: AnyObject, _ kind: Kind) -> Bool {
        // Making it may collect garbage, and so run anything: until it is made, we hold the object.
        withExtendedLifetime(object) {
            cl_push_object(thread, kind.record, Unmanaged.passUnretained(object).toOpaque()) == LUA_OK
        }
    }

    /// The one value that a program describes. May fail.
    public func push(_ program: ValueProgram) -> Bool {
        guard let state = cl_state_of(thread) else { return false }
        cl_reset(state)
        guard program.bytes.withUnsafeBytes({ cl_write(state, $0.baseAddress, $0.count) }) != 0 else {
            pushNil()
            return false
        }
        return cl_decode(thread) == LUA_OK
    }

    /// What of `runloop` is written in Lua, as a function. May fail.
    public func pushPrelude() -> Bool { cl_load_prelude(thread) == LUA_OK }

    /// Its last argument: what makes `rl.notifications`, as a function. May fail.
    public func pushNotifications() -> Bool { cl_load_notifications(thread) == LUA_OK }

    /// The table of functions that what is written in Lua is built on. May fail.
    public func pushInternals() -> Bool { cl_push_internals(thread) == LUA_OK }

    /// Whether there is a part of the product of this name that is written in Lua.
    public static func hasModule(_ name: String) -> Bool { name.withCString { cl_has_module($0) } != 0 }

    /// A part of the product that is written in Lua, as a function. May fail.
    public func pushModule(_ name: String) -> Bool { name.withCString { cl_load_module(thread, $0) == LUA_OK } }

    /// `print` as the host has it, whatever the script has made of the global.
    public func pushPrint() { cl_push_print(thread) }

    /// The text of such a part. May fail.
    public func pushModuleText(_ name: String) -> Bool {
        name.withCString { cl_push_module_text(thread, $0) == LUA_OK }
    }

    /// In a fiber that runs a callback, whose stack begins with the table of anchors: what a slot anchors.
    @inlinable @inline(__always)
    public func pushAnchored(_ slot: UInt32) { lua_rawgeti(thread, 1, lua_Integer(slot)) }

    /// What `lua_resume` takes for an error: the value pushed next is raised where the coroutine waits.
    @inlinable
    public func pushRaiseMark() { lua_pushlightuserdata(thread, cl_raise_mark()) }

    /// What `lua_resume` takes for a string of these bytes, as the only result of the wait that ends. They have to be there until
    /// `Interpreter.resume`, which is to come next. Cannot fail.
    @inlinable
    public func pushBytesMark(_ bytes: UnsafeRawBufferPointer) {
        let state = cl_state_of(thread)
        state?.pointee.bytes_start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
        state?.pointee.bytes_length = bytes.count
        lua_pushlightuserdata(thread, cl_bytes_mark())
    }

    /// A new object of a kind, which holds nothing yet. nil when memory is out; then an error is on top instead.
    public func pushNew(_ kind: Kind) -> Box? {
        cl_push_new(thread, kind.record) == LUA_OK ? lua_touserdata(thread, -1).map { Box($0) } : nil
    }

    // MARK: Moving

    /// Puts a copy of a value in the place of another.
    @inlinable @inline(__always)
    public func copy(_ index: Int32, to place: Int32) { lua_copy(thread, index, place) }

    /// Moves the topmost value below the others from `index` on.
    @inlinable @inline(__always)
    public func insert(at index: Int32) { lua_rotate(thread, index, 1) }

    /// Takes a value out from below others.
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

    /// A number, not a string that looks like one.
    @inlinable @inline(__always)
    public func number(_ index: Int32) -> Double? {
        lua_type(thread, index) == LUA_TNUMBER ? lua_tonumberx(thread, index, nil) : nil
    }

    /// An integer, or a float with an integer's value.
    @inlinable
    public func integer(_ index: Int32) -> Int? {
        guard lua_type(thread, index) == LUA_TNUMBER else { return nil }
        var isInteger: Int32 = 0
        let value = lua_tointegerx(thread, index, &isInteger)
        return isInteger != 0 ? Int(value) : nil
    }

    /// A string's bytes, as long as it is on the stack.
    @inlinable
    public func bytes(_ index: Int32) -> UnsafeRawBufferPointer? {
        guard lua_type(thread, index) == LUA_TSTRING else { return nil }
        var length = 0
        let text = lua_tolstring(thread, index, &length)
        return UnsafeRawBufferPointer(start: text, count: length)
    }

    public func string(_ index: Int32) -> String? { bytes(index).map { String(anyBytes: $0) } }

    /// Writes the text of the number at an index, as `tostring` makes it, where there is room for 64 bytes; its length.
    public func text(ofNumber index: Int32, _ place: UnsafeMutableRawPointer) -> Int {
        cl_number_text(thread, index, place.assumingMemoryBound(to: CChar.self))
    }

    /// Whether two values are the same, without asking metamethods.
    @inlinable @inline(__always)
    public func isSame(_ index: Int32, _ other: Int32) -> Bool { lua_rawequal(thread, index, other) != 0 }

    /// Whether two values are equal, as `==` has it. Metamethods are called, so anything may have happened meanwhile. nil: one has raised,
    /// and the error is on top.
    public func isEqual(_ index: Int32, _ other: Int32) -> Bool? {
        let answer = cl_equal(thread, index, other)
        return answer < 0 ? nil : answer != 0
    }

    /// What tells a function, table or userdata from all others while it lives.
    public func identity(_ index: Int32) -> UInt { UInt(bitPattern: lua_topointer(thread, index)) }

    /// How to call a value in a message: its kind, and what it is if that fits in; as `runloop.misuse` does it in Lua.
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

    /// As Lua's `%q` writes it, on one line.
    private static func quoted(_ bytes: UnsafeRawBufferPointer) -> String {
        var text: [UInt8] = [UInt8(ascii: "\"")]
        for (place, byte) in bytes.enumerated() {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += [UInt8(ascii: "\\"), byte]
            case 10: text += Array("\\n".utf8)
            case ..<32, 127:
                // Three digits where another digit would be taken for one of them.
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

    /// Puts the topmost values into a table, which takes their place. May fail.
    public func collect(_ count: Int32) -> Bool { cl_collect_values(thread, count) == LUA_OK }

    /// Pushes an element of a table, raw.
    @inlinable @inline(__always) @discardableResult
    public func pushElement(_ number: Int, of table: Int32) -> ValueType {
        ValueType(lua_rawgeti(thread, table, lua_Integer(number)))
    }

    /// Puts the field of a table in the place of its key, which is on top, raw.
    @inlinable @discardableResult
    public func pushField(of table: Int32) -> ValueType { ValueType(lua_rawget(thread, table)) }

    /// Puts a field of the table on top in that one's place, raw. May fail.
    public func replaceTop(withField name: String) -> Bool {
        guard push(name) else { return false }
        pushField(of: -2)
        remove(at: -2)
        return true
    }

    /// The metatable of a value; nothing is pushed if there is none.
    @inlinable
    public func pushMetatable(of index: Int32) -> Bool { lua_getmetatable(thread, index) != 0 }

    /// How many elements a table has, raw.
    @inlinable
    public func length(of table: Int32) -> Int { Int(lua_rawlen(thread, table)) }

    /// The elements of an array, each of which `read` finds on top; nil if it is no table, or has one that `read` does not take.
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

    /// Pushes a user value of an object of ours.
    @inlinable @inline(__always) @discardableResult
    public func pushUserValue(_ number: Int32, of object: Int32) -> ValueType {
        ValueType(lua_getiuservalue(thread, object, number))
    }

    /// Pops a value and makes it a user value of an object of ours.
    @inlinable @inline(__always)
    public func setUserValue(_ number: Int32, of object: Int32) { lua_setiuservalue(thread, object, number) }

    /// The head of an object of ours; nil for anything else.
    public func box(_ index: Int32) -> Box? { cl_any_box_at(thread, index).map { Box($0) } }

    /// The head of an object of a kind; nil for anything else.
    @inlinable
    public func box(_ index: Int32, _ kind: Kind) -> Box? { cl_box_at(thread, index, kind.record).map { Box($0) } }

    /// The Swift object of an object of a kind; nil for anything else.
    @inlinable
    public func object<T: AnyObject>(_ index: Int32, _ kind: Kind, as: T.Type) -> T? {
        guard let box = box(index, kind), box.isFilled else { return nil }
        return box.object(as: T.self)
    }

    /// Keeps the value at an index alive, under a number other than 0, until `Interpreter.release`; 0 when memory is out.
    @inlinable @inline(__always)
    public func anchor(_ index: Int32) -> UInt32 { cl_anchor(thread, index) }

    // MARK: Calls

    /// Calls the function below the topmost `arguments` values, with traceback in the error message. May fail.
    public func call(arguments: Int32, results: Int32) -> Bool { cl_call_traced(thread, arguments, results) == LUA_OK }

    /// Whether the latest `call` of this state failed for being interrupted.
    public var wasInterrupted: Bool { cl_state_of(thread).pointee.was_interrupted != 0 }

    /// Pops a value and answers its text, as `tostring` makes it.
    public func popText() -> String {
        cl_to_text(thread, -1)
        pop()
        return Interpreter.of(thread).scratch
    }

    /// All results, however many.
    public static var all: Int32 { LUA_MULTRET }
}

extension Stack {
    /// The innermost line of the coroutine's that is the script's: "app.lua:9".
    public var place: String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(LUA_IDSIZE)) { source in
            guard let bytes = source.baseAddress else { return nil }
            let line = cl_place(thread, bytes)
            return line > 0 ? "\(String(anyBytes: UnsafePointer(bytes))):\(line)" : nil
        }
    }
}
