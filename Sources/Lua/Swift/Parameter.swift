/// The way to read an argument or a field, and its description for messages.
public protocol Parameter {
    associatedtype Value
    /// The description: "a number of seconds, 0 or more".
    static var expected: String { get }
    /// Reads a value. Returns nil if the value is not what is expected. Throws a `Misuse` only if the message must say
    /// more than that.
    static func read(_ stack: Stack, _ index: Int32) throws(Misuse) -> Value?
}

/// A function, as its index on the stack.
public enum Function: Parameter {
    public static var expected: String { "a function" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> Int32? { stack.type(index) == .function ? index : nil }
}

public enum Boolean: Parameter {
    public static var expected: String { "a boolean" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> Bool? {
        stack.type(index) == .boolean ? stack.boolean(index) : nil
    }
}

public enum Integer: Parameter {
    public static var expected: String { "an integer" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> Int? { stack.integer(index) }
}

/// A string of any bytes.
public enum Text: Parameter {
    public static var expected: String { "a string" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> String? { stack.string(index) }
}

/// A string's bytes, which are valid while the string is on the stack.
public enum Bytes: Parameter {
    public static var expected: String { "a string" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> UnsafeRawBufferPointer? { stack.bytes(index) }
}

/// The name of an object. A name may be a number, as nearly everywhere in Lua where a string is expected.
public enum Name: Parameter {
    public static var expected: String { "a string" }
    @inlinable
    public static func read(_ stack: Stack, _ index: Int32) -> String? {
        if let text = stack.string(index) { return text }
        if let integer = stack.integer(index) { return "\(integer)" }
        return stack.number(index).map { "\($0)" }
    }
}

public enum ByteStrings: Parameter {
    public static var expected: String { "an array of strings" }
    public static func read(_ stack: Stack, _ index: Int32) -> [[UInt8]]? {
        stack.elements(of: index) { stack.bytes(-1).map { Array($0) } }
    }
}

extension Call {
    /// Returns a required argument.
    @inlinable
    public func argument<P: Parameter>(_ index: Int32, _: P.Type) throws(Misuse) -> P.Value {
        if let value = try P.read(stack, index) { return value }
        throw wrong(index, P.expected)
    }

    /// Returns an argument that may be missing or nil.
    @inlinable
    public func optional<P: Parameter>(_ index: Int32, _: P.Type) throws(Misuse) -> P.Value? {
        stack.isMissing(index) ? nil : try argument(index, P.self)
    }

    /// Returns the error for an argument that is not what is expected.
    public func wrong(_ index: Int32, _ expected: String) -> Misuse {
        Misuse("argument #\(number(ofArgument: index)) must be \(expected), got \(stack.describe(index))")
    }
}
