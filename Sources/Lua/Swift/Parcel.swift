internal import CLuaSupport

/// Values that travel from one Lua state to others. The values are copied when the parcel is packed, and each time it
/// is unpacked.
public final class Parcel: @unchecked Sendable {
    // Sendable: nothing changes a parcel after it was made.
    private let contents: UnsafeMutablePointer<cl_parcel>

    init(_ contents: UnsafeMutablePointer<cl_parcel>) { self.contents = contents }

    deinit { cl_free_parcel(contents) }

    /// The number of values.
    public var count: Int32 { contents.pointee.count }

    /// Packs the values from `first` to the top of the stack and pops them. Returns nil on failure, with an error
    /// message on the stack.
    public static func pack(_ stack: Stack, from first: Int32) -> Parcel? {
        cl_pack(stack.thread, first, nil).map(Parcel.init)
    }

    /// Pushes copies of the values, and returns their number. Returns nil on failure, with an error value on the stack.
    public func unpack(onto stack: Stack) -> Int32? {
        let top = stack.top
        guard cl_unpack(stack.thread, contents) == LUA_OK else { return nil }
        return stack.top - top
    }
}

extension Call {
    /// Returns the arguments of the running function, if its entry packs them; nil if there was nothing to pack. Call
    /// this before anything else.
    public func takeParcel() -> Parcel? { cl_take_parcel(thread).map(Parcel.init) }
}
