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
    public static func pack(_ stack: Stack, from first: Int32) -> Parcel? {
        cl_pack(stack.thread, first, nil).map(Parcel.init)
    }

    /// Pushes copies of the values, and returns how many; nil: an error value is on the stack instead.
    public func unpack(onto stack: Stack) -> Int32? {
        let top = stack.top
        guard cl_unpack(stack.thread, contents) == LUA_OK else { return nil }
        return stack.top - top
    }
}

extension Call {
    /// In a function that packs, before anything else: what it was passed; nil if there was nothing to pack.
    public func takeParcel() -> Parcel? { cl_take_parcel(thread).map(Parcel.init) }
}
