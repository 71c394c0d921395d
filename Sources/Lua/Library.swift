internal import CLua
public import CLuaSupport

/// A function for Lua: gets the caller's `lua_State *`.
public typealias LuaFunction = @convention(c) (OpaquePointer?) -> Int32

/// Functions by name, as Lua gets them. The storage lives as long as the program: make one for each library, not for each state.
public struct Library: @unchecked Sendable {
    // Sendable: written once, here.
    let entries: UnsafeMutableBufferPointer<cl_entry>

    public struct Entry: Sendable {
        let name: StaticString
        let kind: Int32
        let spread: Int32
        let function: LuaFunction

        /// - Parameters:
        ///   - constructs: the function makes an object of this kind, its first argument.
        ///   - spread: the number of the first argument that the new object keeps, before the object was put in front.
        public init(_ name: StaticString, constructs: Int = -1, spread: Int32 = 0, _ function: @escaping LuaFunction) {
            self.name = name
            kind = Int32(constructs)
            self.spread = spread
            self.function = function
        }

        /// A function that is C and of Lua's own kind: Lua calls it without a trampoline, and it may raise.
        public static func native(_ name: StaticString, _ function: @escaping LuaFunction) -> Entry {
            Entry(name, constructs: Int(CL_NATIVE), function)
        }
    }

    public init(_ functions: [Entry]) {
        entries = .allocate(capacity: functions.count)
        for (index, entry) in functions.enumerated() {
            let name = UnsafeRawPointer(entry.name.utf8Start).assumingMemoryBound(to: CChar.self)
            entries.initializeElement(
                at: index, to: cl_entry(name: name, function: entry.function, kind: entry.kind, spread: entry.spread))
        }
    }

    public var names: [String] { entries.map { String(cString: $0.name) } }
}

/// A kind of userdata.
public struct Kind: @unchecked Sendable {
    // Sendable: written once, here.
    public let record: UnsafeMutablePointer<cl_kind>
    public let index: Int
    let methods: Library
    let describe: LuaFunction

    /// - Parameters:
    ///   - size: bytes of the userdata, the head included.
    ///   - collect: called when the userdata is collected; it must not touch Lua.
    public init(
        _ index: Int, _ name: StaticString, size: Int = MemoryLayout<cl_box>.size, userValues: Int32 = 1,
        methods: Library, describe: @escaping LuaFunction, collect: LuaFunction? = nil
    ) {
        self.index = index
        self.methods = methods
        self.describe = describe
        record = cl_kind_record(Int32(index))
        record.initialize(
            to: cl_kind(
                name: UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self), size: size,
                user_values: userValues, collect: collect))
    }

    /// A number for a kind that is none of `runloop`'s. It has to be known before the kind is made, as the kind's own
    /// methods may construct it.
    public static func nextIndex() -> Int { Int(cl_next_kind()) }

    public var methodNames: [String] { methods.names }
    public var name: String { String(cString: record.pointee.name) }
}

extension Call {
    /// Makes a kind known. Before any library that constructs it. On failure the error is on the stack.
    public func define(_ kind: Kind) -> Bool {
        let methods = kind.methods.entries
        return cl_define_kind(
            thread, Int32(kind.index), methods.baseAddress, Int32(methods.count), kind.describe) == LUA_OK
    }

    /// Pushes a table of functions. On failure the error is on the stack instead.
    public func push(_ library: Library) -> Bool {
        cl_new_library(thread, library.entries.baseAddress, Int32(library.entries.count)) == LUA_OK
    }

    /// The head of the userdata at an index, if it is of the kind.
    public func box(_ index: Int32, _ kind: Kind) -> UnsafeMutablePointer<cl_box>? {
        cl_box_at(thread, index, kind.record)
    }

    /// In a function that constructs, before anything else: the head of the new object, which is argument 1.
    public var constructed: UnsafeMutablePointer<cl_box>? { host.pointee.constructed }

    /// In a function that constructs: the new userdata holds this object, notes where it was made, and is the answer. The kind's
    /// `collect` gives the object up.
    public func answerConstructed(_ object: AnyObject) -> Int32 {
        guard let box = constructed else { return nothing() }
        box.pointee.object = Unmanaged.passRetained(object).toOpaque()
        box.pointee.site = cl_site_of_caller(thread)
        return answerArgument(1)
    }

    /// The Swift object of the userdata at an index, if it is of the kind.
    public func object<T: AnyObject>(_ index: Int32, _ kind: Kind, as: T.Type) -> T? {
        guard let box = cl_box_at(thread, index, kind.record), let object = box.pointee.object else { return nil }
        // A box of this kind holds nothing else: its constructor put it there.
        return unsafe Unmanaged<T>.fromOpaque(object).takeUnretainedValue()
    }
}
