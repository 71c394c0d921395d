internal import CLuaSupport

/// Values on their way from one Lua state to others. They were copied when it was packed, and are copied again each time
/// it is unpacked.
public final class Parcel: @unchecked Sendable {
    // Sendable: nothing changes it between its making and its end.
    private let contents: UnsafeMutablePointer<cl_parcel>

    init(_ contents: UnsafeMutablePointer<cl_parcel>) { self.contents = contents }

    deinit { cl_free_parcel(contents) }

    /// How many values it holds.
    public var count: Int32 { contents.pointee.count }

    /// Packs the values from `first` to the top of the stack and takes them off it; nil: an error message is there instead.
    public static func pack(_ thread: LuaState, from first: Int32) -> Parcel? {
        cl_pack(thread, first).map(Parcel.init)
    }

    /// Pushes copies of the values, and returns how many; nil: an error value is on the stack instead.
    public func unpack(onto thread: LuaState) -> Int32? {
        let top = lua_gettop(thread)
        guard cl_unpack(thread, contents) == LUA_OK else { return nil }
        return lua_gettop(thread) - top
    }
}

extension Call {
    /// The values that a packing function's caller has passed.
    public func takeParcel() -> Parcel? { cl_take_parcel(thread).map(Parcel.init) }
}

extension Library.Entry {
    /// A function whose arguments from `first` on are packed before it is called: see `Call.takeParcel`.
    public static func packing(_ name: StaticString, from first: Int32, _ function: @escaping LuaFunction) -> Self {
        .init(name, constructs: Int(CL_PACKS), spread: first, function)
    }
}
