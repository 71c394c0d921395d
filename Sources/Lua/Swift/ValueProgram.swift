internal import CLuaSupport

/// Describes values that C makes in Lua after the Swift function has returned, since making them may raise.
public struct ValueProgram: Sendable {
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// Describes an array of texts.
    public init(list: [String]) { append(list: list) }

    public mutating func append(list: [String]) {
        table { for text in list { $0.element { $0.append(text) } } }
    }

    private mutating func tag(_ tag: cl_tag) { bytes.append(UInt8(truncatingIfNeeded: tag.rawValue)) }

    private mutating func raw<T>(_ value: T) { withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) } }

    public mutating func appendNil() { tag(CL_NIL) }
    public mutating func append(_ value: Bool) { tag(value ? CL_TRUE : CL_FALSE) }

    public mutating func append(_ value: Int) {
        tag(CL_INTEGER)
        raw(Int64(value))
    }

    public mutating func append(_ value: Double) {
        tag(CL_NUMBER)
        raw(value)
    }

    public mutating func append(_ value: String) {
        value.withAnyBytes { append(text: $0) }
    }

    /// Appends a string of these bytes.
    public mutating func append(bytes text: [UInt8]) {
        append(text: text)
    }

    private mutating func append(text: some Collection<UInt8>) {
        tag(CL_TEXT)
        raw(UInt64(text.count))
        bytes.append(contentsOf: text)
    }

    public mutating func append(_ value: String?) {
        if let value { append(value) } else { appendNil() }
    }

    public mutating func append(_ value: Double?) {
        if let value { append(value) } else { appendNil() }
    }

    /// Appends an anchored object.
    public mutating func append(slot: UInt32) {
        tag(CL_ANCHORED)
        raw(slot)
    }

    /// Appends a table, whose fields `body` appends.
    public mutating func table(_ body: (inout ValueProgram) -> Void) {
        tag(CL_TABLE)
        raw(UInt32(0))
        raw(UInt32(0))
        body(&self)
    }

    /// Appends a field of the table being described; `value` appends one value.
    public mutating func field(_ name: String, _ value: (inout ValueProgram) -> Void) {
        append(name)
        value(&self)
        tag(CL_SET)
    }

    public mutating func field(_ index: Int, _ value: (inout ValueProgram) -> Void) {
        append(index)
        value(&self)
        tag(CL_SET)
    }

    /// Appends an element to the array being described.
    public mutating func element(_ value: (inout ValueProgram) -> Void) {
        value(&self)
        tag(CL_APPEND)
    }
}
