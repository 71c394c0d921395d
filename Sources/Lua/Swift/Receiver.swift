/// The object on which a method is called. With a receiver, a method is one line: `.init("order") { timer($0).answer {
/// $0.pointee.order } }`.
public struct Receiver<Object> {
    public let call: Call
    /// The object, or nil if it cannot be used; then `refusal` has the reason.
    @usableFromInline let object: Object?
    @usableFromInline let refusal: StaticString

    @inlinable @inline(__always)
    public init(_ call: Call, _ object: Object) {
        self.call = call
        self.object = object
        refusal = ""
    }

    /// Makes the receiver of a call that raises `refusal`, because the object cannot be used.
    @inlinable @inline(__always)
    public init(_ call: Call, refusal: StaticString) {
        self.call = call
        object = nil
        self.refusal = refusal
    }

    /// Calls `body`; the method has no result.
    @inlinable @inline(__always)
    public func act(_ body: (Object) throws(Misuse) -> Void) -> Int32 {
        run { (object, _) throws(Misuse) in
            try body(object)
            return 0
        }
    }

    /// Calls `body`, and returns its value as the method's result.
    @inlinable @inline(__always)
    public func answer<A: Answer>(_ body: (Object) throws(Misuse) -> A) -> Int32 {
        run { (object, call) throws(Misuse) in try body(object).answer(call) }
    }

    /// Calls `body` with the argument; the method has no result.
    @inlinable @inline(__always)
    public func take<P: Parameter>(_: P.Type, _ body: (Object, P.Value) throws(Misuse) -> Void) -> Int32 {
        run { (object, call) throws(Misuse) in
            try body(object, try call.argument(2, P.self))
            return 0
        }
    }

    /// Calls a `body` that reads its own arguments and pushes its own results.
    @inlinable @inline(__always)
    public func run(_ body: (Object, Call) throws(Misuse) -> Int32) -> Int32 {
        guard let object else { return call.raise(Misuse("\(refusal)")) }
        do throws(Misuse) {
            return try body(object, call)
        } catch {
            return call.raise(error)
        }
    }
}

/// Returns the receiver of a method whose kind holds objects of this class.
@inlinable @inline(__always)
public func receiver<Object: AnyObject>(_ thread: OpaquePointer?, _: Object.Type) -> Receiver<Object> {
    let call = Call(thread)
    return Receiver(call, call.receiver.object(as: Object.self))
}

extension Call {
    /// Runs a function that is not a method, and raises the error that it throws.
    @inlinable @inline(__always)
    public static func run(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> Int32) -> Int32 {
        let call = Call(thread)
        do throws(Misuse) {
            return try body(call)
        } catch {
            return call.raise(error)
        }
    }
    /// Runs a function that has no result.
    @inlinable @inline(__always)
    public static func act(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> Void) -> Int32 {
        run(thread) { call throws(Misuse) in
            try body(call)
            return 0
        }
    }

    /// Runs a function that has one result.
    @inlinable @inline(__always)
    public static func answer<A: Answer>(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> A) -> Int32 {
        run(thread) { call throws(Misuse) in try body(call).answer(call) }
    }
}
