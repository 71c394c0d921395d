public import CLuaSupport

/// The head of an object of this host, inside its userdata. Valid as long as the userdata exists.
public struct Box: Hashable {
    @usableFromInline let head: UnsafeMutablePointer<cl_box>

    @inlinable @inline(__always)
    init(_ head: UnsafeMutablePointer<cl_box>) { self.head = head }

    /// The box in front of a payload.
    @inlinable @inline(__always)
    public init(before payload: UnsafeMutableRawPointer) { head = payload.assumingMemoryBound(to: cl_box.self) - 1 }

    @inlinable @inline(__always)
    public init(_ address: UnsafeMutableRawPointer) { head = address.assumingMemoryBound(to: cl_box.self) }

    @inlinable @inline(__always)
    public init?(bitPattern: Int) {
        guard let head = UnsafeMutablePointer<cl_box>(bitPattern: bitPattern) else { return nil }
        self.head = head
    }

    public var address: UnsafeMutableRawPointer { @inlinable @inline(__always) get { UnsafeMutableRawPointer(head) } }

    /// Returns the data that a kind keeps in the userdata itself.
    @inlinable @inline(__always)
    public func payload<T>(as: T.Type) -> UnsafeMutablePointer<T> {
        UnsafeMutableRawPointer(head + 1).assumingMemoryBound(to: T.self)
    }

    /// The slot in which the userdata is anchored, or 0.
    public var slot: UInt32 {
        @inlinable @inline(__always) get { head.pointee.slot }
        @inlinable @inline(__always) nonmutating set { head.pointee.slot = newValue }
    }
    /// The creation site.
    public var site: UInt32 {
        @inlinable @inline(__always) get { head.pointee.site }
        @inlinable @inline(__always) nonmutating set { head.pointee.site = newValue }
    }
    /// The number of further user values.
    public var spread: Int32 { @inlinable @inline(__always) get { Int32(head.pointee.spread) } }
    /// Bits that the kind defines.
    public var flags: UInt32 {
        @inlinable @inline(__always) get { head.pointee.flags }
        @inlinable @inline(__always) nonmutating set { head.pointee.flags = newValue }
    }

    /// A hash of the kind and the creation site: equal for all objects of a kind that were made at one site.
    public var subjectKey: UInt32 {
        @inlinable @inline(__always)
        get { UInt32(truncatingIfNeeded: head.pointee.kind.pointee.index) << 24 | head.pointee.site & 0xFF_FFFF }
    }

    public var kindName: String { String(cString: head.pointee.kind.pointee.name) }

    @inlinable @inline(__always)
    public func `is`(_ kind: Kind) -> Bool { head.pointee.kind == UnsafePointer(kind.record) }

    // MARK: The Swift object

    /// Whether the box holds an object.
    public var isFilled: Bool { @inlinable @inline(__always) get { head.pointee.object != nil } }

    /// Holds an object until the userdata is collected.
    @inlinable
    public func hold(_ object: AnyObject) { head.pointee.object = Unmanaged.passRetained(object).toOpaque() }

    /// Returns the object that it holds.
    @inlinable @inline(__always)
    public func object<T: AnyObject>(as: T.Type) -> T {
        guard let object = head.pointee.object else { preconditionFailure("trampolines reject empty objects") }
        // Boxes of this kind contain only objects of this class, which the kind's constructor has stored.
        return unsafe Unmanaged<T>.fromOpaque(object).takeUnretainedValue()
    }

    /// Calls `body` with the object, without counting references.
    @inlinable @inline(__always)
    public func with<T: AnyObject>(_: T.Type, _ body: (T) -> Void) {
        guard let object = head.pointee.object else { preconditionFailure("trampolines reject empty objects") }
        unsafe Unmanaged<T>.fromOpaque(object)._withUnsafeGuaranteedRef(body)
    }

    /// Releases the object, for a kind's `collect`. Clears the head first, because a finalizer may be called twice.
    public func drop() {
        guard let object = head.pointee.object else { return }
        head.pointee.object = nil
        unsafe Unmanaged<AnyObject>.fromOpaque(object).release()  // balances `hold`
    }
}
