/// What a method is called on. A method is a line with it: `.init("order") { timer($0).answer { $0.pointee.order } }`.
public struct Receiver<Object> {
    public let call: Call
    /// nil: there is a reason not to, which `refusal` says.
    @usableFromInline let object: Object?
    @usableFromInline let refusal: StaticString

    @inlinable @inline(__always)
    public init(_ call: Call, _ object: Object) {
        self.call = call
        self.object = object
        refusal = ""
    }

    /// It cannot be used from here.
    @inlinable @inline(__always)
    public init(_ call: Call, refusal: StaticString) {
        self.call = call
        object = nil
        self.refusal = refusal
    }

    /// Does something, and answers nothing.
    @inlinable @inline(__always)
    public func act(_ body: (Object) throws(Misuse) -> Void) -> Int32 {
        run { (object, _) throws(Misuse) in
            try body(object)
            return 0
        }
    }

    /// Answers a value.
    @inlinable @inline(__always)
    public func answer<A: Answer>(_ body: (Object) throws(Misuse) -> A) -> Int32 {
        run { (object, call) throws(Misuse) in try body(object).answer(call) }
    }

    /// Does something with the argument, and answers nothing.
    @inlinable @inline(__always)
    public func take<P: Parameter>(_: P.Type, _ body: (Object, P.Value) throws(Misuse) -> Void) -> Int32 {
        run { (object, call) throws(Misuse) in
            try body(object, try call.argument(2, P.self))
            return 0
        }
    }

    /// Does what takes more than a line.
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

/// What a method is called on, where the kind holds such objects.
@inlinable @inline(__always)
public func receiver<Object: AnyObject>(_ thread: OpaquePointer?, _: Object.Type) -> Receiver<Object> {
    let call = Call(thread)
    return Receiver(call, call.receiver.object(as: Object.self))
}

extension Call {
    /// A function that is no method: raises what it throws.
    @inlinable @inline(__always)
    public static func run(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> Int32) -> Int32 {
        let call = Call(thread)
        do throws(Misuse) {
            return try body(call)
        } catch {
            return call.raise(error)
        }
    }
    /// One that answers nothing.
    @inlinable @inline(__always)
    public static func act(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> Void) -> Int32 {
        run(thread) { call throws(Misuse) in
            try body(call)
            return 0
        }
    }

    /// One with one answer.
    @inlinable @inline(__always)
    public static func answer<A: Answer>(_ thread: OpaquePointer?, _ body: (Call) throws(Misuse) -> A) -> Int32 {
        run(thread) { call throws(Misuse) in try body(call).answer(call) }
    }
}
