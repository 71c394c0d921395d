internal import CLuaSupport

/// A function for Lua, which gets the caller's `lua_State *`.
public typealias LuaFunction = @convention(c) (OpaquePointer?) -> Int32

/// A table of functions for Lua, by name. The table's storage is never freed, so make one table for each library, and
/// use it for all states.
public struct Library: @unchecked Sendable {
    // Sendable: written once, in `init`.
    let entries: UnsafeMutableBufferPointer<cl_entry>

    public struct Entry: Sendable {
        let name: StaticString
        let makes: Kind?
        let makesAfar: Kind?
        let spread: Int32
        let packs: Int32
        let saidAs: StaticString?
        let function: LuaFunction
        private(set) var isNative = false

        /// - Parameters:
        ///   - constructs: the kind of object that the function constructs. The new object is inserted as the first
        ///     argument.
        ///   - orAfar: the kind to make instead if the function is a method and its object belongs to another thread.
        ///     Then, if the argument before `spread` is a function, this function and all arguments after it are
        ///     packed: see `Call.takeParcel`.
        ///   - spread: the number of the first argument that the new object keeps, as the script counts arguments.
        ///   - packs: the number of the first argument that is packed before the function is called: see
        ///     `Call.takeParcel`.
        ///   - saidAs: the name for errors, if scripts know the function only as a part of another function:
        ///     "stream:lines".
        public init(
            _ name: StaticString, constructs: Kind? = nil, orAfar: Kind? = nil, spread: Int32 = 0, packs: Int32 = 0,
            saidAs: StaticString? = nil, _ function: @escaping LuaFunction
        ) {
            self.name = name
            makes = constructs
            makesAfar = orAfar
            self.spread = spread
            self.packs = packs
            self.saidAs = saidAs
            self.function = function
        }

        /// A C function that Lua calls directly, without a trampoline, so that it may raise.
        public static func native(_ name: StaticString, _ function: @escaping LuaFunction) -> Entry {
            var entry = Entry(name, function)
            entry.isNative = true
            return entry
        }

        /// The checker of options that modules written in Lua share: (options, declaration, name of the function,
        /// number of the argument) returns the options, or raises the error for the first problem.
        public static let checkFields = native("check") { cl_check_fields($0) }
    }

    /// - Parameter prefix: the text before the names in scripts: "rl.". Errors begin with this prefix and the name.
    public init(_ prefix: StaticString, _ functions: [Entry]) { self.init(prefix, nil, functions) }

    public init(_ functions: [Entry]) { self.init(nil, nil, functions) }

    /// The methods of a kind. They are called only on objects of this kind. Names that begin with "__" are events of
    /// the metatable.
    public init(of kind: Kind, _ methods: [Entry]) { self.init(nil, kind, methods) }

    private init(_ prefix: StaticString?, _ kind: Kind?, _ functions: [Entry]) {
        entries = .allocate(capacity: functions.count)
        for (index, entry) in functions.enumerated() {
            entries.initializeElement(
                at: index,
                to: cl_entry(
                    name: entry.name.pointer, library: prefix?.pointer,
                    self_kind: kind.map { UnsafePointer($0.record) }, function: entry.function,
                    makes: entry.makes.map { UnsafePointer($0.record) },
                    makes_afar: entry.makesAfar.map { UnsafePointer($0.record) }, spread: entry.spread,
                    is_native: entry.isNative ? 1 : 0, packs: entry.packs, said_as: entry.saidAs?.pointer))
        }
    }

    public var names: [String] { entries.map { String(cString: $0.name) }.filter { !$0.hasPrefix("__") } }
}
