public import CLuaSupport

/// A kind of userdata.
public struct Kind: @unchecked Sendable {
    /// Returns whether an object was never used. The arguments are the address of the object's head, and a buffer for
    /// its name with its size in bytes, the final 0 included.
    public typealias IsUnused = @convention(c) (UnsafeMutableRawPointer?, UnsafeMutablePointer<CChar>?, Int) -> Int32

    // Sendable: written once, in `init`.
    public let record: UnsafeMutablePointer<cl_kind>
    let methods: @Sendable () -> Library

    /// - Parameters:
    ///   - payload: number of bytes in the userdata after the head.
    ///   - values: names of the kind's user values, by which the Lua-written part finds them.
    ///   - methods: its `Library(of:)`. The library is evaluated when a state defines the kind, so that methods may
    ///     construct objects of the kind.
    ///   - collect: called when the userdata is collected; it must not call Lua. nil for a kind whose userdata contain
    ///     no Swift object.
    ///   - isUnused: called when an object is collected while Lua's warnings are on. Returns whether the object was
    ///     never used, so that a warning is useful, and writes its name, unless the user value "name" has it.
    ///   - inherits: whether the callback of an object has the values of `rl.locals` with which the object was made.
    public init(
        _ name: StaticString, payload: Int = 0, values: [StaticString] = [],
        methods: @escaping @Sendable @autoclosure () -> Library,
        collect: LuaFunction? = nil, isUnused: IsUnused? = nil, inherits: Bool = false
    ) {
        let index = cl_next_kind()
        let names = UnsafeMutablePointer<UnsafePointer<CChar>?>.allocate(capacity: max(1, values.count))
        for (i, value) in values.enumerated() { (names + i).initialize(to: value.pointer) }
        record = cl_kind_record(index)
        record.initialize(
            to: cl_kind(
                name: name.pointer, index: index, size: MemoryLayout<cl_box>.size + payload,
                user_values: Int32(values.count), value_names: names, collect: collect,
                is_unused: isUnused, inherits: inherits ? 1 : 0))
        self.methods = methods
    }

    public var name: String { String(cString: record.pointee.name) }
    /// Releases the object that a userdata holds.
    public static let drop: LuaFunction = { thread in
        if let thread { Stack(thread).box(1)?.drop() }
        return 0
    }
}

extension StaticString {
    /// Points to the text, which ends with a 0 and lives as long as the program.
    var pointer: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }
}

extension Call {
    /// Defines a kind in this state, which is necessary before any library that constructs it. On failure the error is
    /// on the stack.
    public func define(_ kind: Kind) -> Bool {
        let methods = kind.methods().entries
        return cl_define_kind(thread, kind.record, methods.baseAddress, Int32(methods.count)) == LUA_OK
    }

    /// Pushes a table of functions. On failure the error is on the stack instead.
    public func push(_ library: Library) -> Bool {
        cl_new_library(thread, library.entries.baseAddress, Int32(library.entries.count)) == LUA_OK
    }
}
