/// A result that a function can return to a script.
public protocol Answer {
    func answer(_ call: Call) -> Int32
}

extension Bool: Answer {
    @inlinable @inline(__always)
    public func answer(_ call: Call) -> Int32 { call.answer(self) }
}

extension Double: Answer {
    @inlinable @inline(__always)
    public func answer(_ call: Call) -> Int32 { call.answer(self) }
}

extension Int: Answer {
    @inlinable @inline(__always)
    public func answer(_ call: Call) -> Int32 { call.answer(self) }
}

extension String: Answer {
    public func answer(_ call: Call) -> Int32 { call.answer(self) }
}

extension ValueProgram: Answer {
    public func answer(_ call: Call) -> Int32 { call.answer(self) }
}

/// nil becomes Lua's nil.
extension Optional: Answer where Wrapped: Answer {
    @inlinable @inline(__always)
    public func answer(_ call: Call) -> Int32 {
        guard let self else { return call.answerNil() }
        return self.answer(call)
    }
}
