internal import CLuaSupport

/// A function for Lua: gets the caller's `lua_State *`.
public typealias LuaFunction = @convention(c) (OpaquePointer?) -> Int32

/// Functions by name, as Lua gets them. The storage lives as long as the program: make one for each library, not for each state.
public struct Library: @unchecked Sendable {
    // Sendable: written once, here.
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
        ///   - constructs: the function makes an object of this kind, its first argument, before all others.
        ///   - orAfar: of this kind instead if it is a method and its object belongs to another thread; then the argument before
        ///     `spread`, and those from there on, are packed, if that is a function: see `Call.takeParcel`.
        ///   - spread: the number of the first argument that the new object keeps, before the object was put in front.
        ///   - packs: the number of the first argument that is packed before the function is called: see `Call.takeParcel`.
        ///   - saidAs: what errors begin with instead of its name, if scripts know it only as a part of another: "stream:lines".
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

        /// A function that is C and of Lua's own kind: Lua calls it without a trampoline, and it may raise.
        public static func native(_ name: StaticString, _ function: @escaping LuaFunction) -> Entry {
            var entry = Entry(name, function)
            entry.isNative = true
            return entry
        }
    }

    /// - Parameter prefix: what scripts write before the names: "rl.". Errors begin with both.
    public init(_ prefix: StaticString, _ functions: [Entry]) { self.init(prefix, nil, functions) }

    public init(_ functions: [Entry]) { self.init(nil, nil, functions) }

    /// The methods of a kind: each is called on an object of that only. Those whose names begin with "__" are events of its
    /// metatable.
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
