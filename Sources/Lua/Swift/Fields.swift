internal import CLua
internal import CLuaSupport

/// The fields of an options table: `enum Option: Int, Field`, with the names that scripts write.
public protocol Field: RawRepresentable<Int>, Sendable {
    static var names: [StaticString] { get }
}

extension Field {
    /// The name that scripts write.
    @inlinable
    public var name: StaticString { Self.names[rawValue] }
}

/// The user values of a kind: `enum Value: Int, UserValue`, with the names by which the Lua-written part finds them.
public protocol UserValue: RawRepresentable<Int>, Sendable {
    static var labels: [StaticString] { get }
}

extension UserValue {
    /// The number of the user value in Lua's functions.
    @inlinable
    public var number: Int32 { Int32(rawValue) + 1 }
}

/// An options table. Each field is read once, by a raw traversal that can neither raise nor run the script's code.
public struct Fields<F: Field> {
    public let call: Call
    /// Stack index of the first field. The other fields follow in the order of `F.names`, with nil for absent ones.
    @usableFromInline let base: Int32
    /// The number of positional values.
    public let positional: Int32

    @inlinable
    init(_ call: Call, base: Int32, positional: Int32) {
        self.call = call
        self.base = base
        self.positional = positional
    }

    /// Returns the stack index of a field.
    @inlinable @inline(__always)
    public func index(_ field: F) -> Int32 { base + Int32(field.rawValue) }

    @inlinable @inline(__always)
    public func has(_ field: F) -> Bool { !call.stack.isMissing(index(field)) }

    /// Reads a field, or returns nil if it is absent.
    @inlinable
    public subscript<P: Parameter>(field: F, _: P.Type) -> P.Value? {
        @inline(__always) get throws(Misuse) { has(field) ? try required(field, P.self) : nil }
    }

    @inlinable @inline(__always)
    public func required<P: Parameter>(_ field: F, _: P.Type) throws(Misuse) -> P.Value {
        if let value = try P.read(call.stack, index(field)) { return value }
        throw wrong(field, P.expected)
    }

    /// Returns the error for a field that is not what is expected.
    @inlinable
    public func wrong(_ field: F, _ expected: String) -> Misuse { call.wrong(index(field), field.name, expected) }

    /// Stores the field, a function or nil, as a user value of the object that is argument 1.
    @inlinable
    public func keep<Value: UserValue>(_ field: F, as value: Value) {
        call.stack.pushCopy(of: index(field))
        call.stack.setUserValue(value.number, of: 1)
    }
}

extension Call {
    /// Reads the options table at an index, and copies its fields to the top of the stack.
    ///
    /// - Parameter positional: Whether values with integer keys are allowed and copied, as in `perform{ fn, 1, 2, wait
    ///   = true }`.
    @inlinable
    public func fields<F: Field>(_ index: Int32, _: F.Type, positional: Bool = false) throws(Misuse) -> Fields<F> {
        let base = stack.top + 1
        return Fields(self, base: base, positional: try readFields(index, F.names, positional))
    }

    /// Reads an options table. Returns nil if the argument is missing.
    @inlinable
    public func optionalFields<F: Field>(_ index: Int32, _: F.Type) throws(Misuse) -> Fields<F>? {
        stack.isMissing(index) ? nil : try fields(index, F.self)
    }

    /// If the table at an index has a given field, calls a function of another part in place of the running function,
    /// with the arguments from `first` on. The called function may wait.
    public func pass(from first: Int32, to function: String, of part: String, ifAt index: Int32, is field: String)
        -> Int32?
    {
        guard stack.type(index) == .table, stack.reserve(stack.top + 8), stack.push(field) else { return nil }
        let last = stack.top - 1
        let isGiven = stack.pushField(of: index) != .nil
        stack.top = last
        guard isGiven else { return nil }
        guard cl_push_part(thread, part) == LUA_OK, stack.replaceTop(withField: function) else { return raiseValue() }
        for argument in first...last { stack.pushCopy(of: argument) }
        return call(arguments: last - first + 1)
    }

    @usableFromInline
    func readFields(_ index: Int32, _ names: [StaticString], _ positional: Bool) throws(Misuse) -> Int32 {
        guard stack.type(index) == .table else {
            throw Misuse("an options table is expected, got \(stack.describe(index))")
        }
        guard stack.reserve(Int32(names.count) + 8) else { throw .noMemory }
        let base = stack.top + 1
        for _ in names { lua_pushnil(thread) }
        var last = 0
        lua_pushnil(thread)
        while lua_next(thread, index) != 0 {
            if positional, lua_isinteger(thread, -2) != 0 {
                last = max(last, Int(lua_tointegerx(thread, -2, nil)))
                cl_pop(thread, 1)
                continue
            }
            guard let key = stack.bytes(-2) else {
                throw Misuse("\(stack.describe(-2)) is not the name of a field")
            }
            guard let field = names.firstIndex(where: { $0.matches(key) }) else {
                throw unknownField(String(decoding: key, as: UTF8.self), names)
            }
            lua_copy(thread, -1, base + Int32(field))
            cl_pop(thread, 1)
        }
        guard last <= 250 else { throw Misuse("too many arguments (at most 250)") }
        return Int32(last)
    }

    /// Returns the error for a field that the options do not have. A part in Lua finds the intended name.
    private func unknownField(_ field: String, _ names: [StaticString]) -> Misuse {
        let top = stack.top
        defer { stack.top = top }
        guard stack.reserve(Int32(names.count) + 8), cl_push_part(thread, "runloop.hints") == LUA_OK,
            stack.replaceTop(withField: "field_among"), stack.push(function), stack.push(field),
            names.allSatisfy({ stack.push($0.description) }),
            stack.call(arguments: Int32(names.count) + 2, results: 1), let hint = stack.string(-1)
        else { return Misuse("unknown field '\(field)'") }
        return Misuse("unknown field '\(field)'\(hint)")
    }

    @usableFromInline
    func wrong(_ index: Int32, _ field: StaticString, _ expected: String) -> Misuse {
        if stack.isMissing(index) { return Misuse("field '\(field)' is missing (\(expected))") }
        return Misuse("field '\(field)' must be \(expected), got \(stack.describe(index))")
    }
}

extension StaticString {
    fileprivate func matches(_ key: UnsafeRawBufferPointer) -> Bool {
        guard utf8CodeUnitCount == key.count else { return false }
        for i in 0..<key.count where utf8Start[i] != key[i] { return false }
        return true
    }
}

/// Returns the name most similar to a misspelt one; the alphabetically first of several; nil if none is similar. A name
/// of one or two letters is never corrected, since it would be similar to too many. In a short name, two differences
/// make another word: "fetch" is not "batch". The beginning of a name matches if no other name begins in this way:
/// "cert" matches "certificate".
public func nearest(to name: String, _ names: [String]) -> String? {
    guard name.utf8.count > 2 else { return nil }
    let scored = names.sorted().map { (name: $0, distance: distance(Array(name.utf8), Array($0.utf8))) }
    guard let best = scored.min(by: { $0.distance < $1.distance }) else { return nil }
    if best.distance > 1 {
        let longer = names.filter { $0.hasPrefix(name) }
        if longer.count == 1 { return longer[0] }
    }
    let length = min(name.utf8.count, best.name.utf8.count)
    return best.distance <= (length <= 5 ? 1 : max(2, length / 3)) ? best.name : nil
}

// Computes Levenshtein's distance, a row at a time. Two exchanged letters, the most frequent mistake, count as one
// difference.
private func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
    guard a.count < 64 else { return 64 }
    var row = Array(0...b.count)
    var above: [Int] = []
    for i in a.indices {
        let twoAbove = above
        above = row
        row[0] = i + 1
        for j in b.indices {
            row[j + 1] = min(above[j + 1] + 1, row[j] + 1, above[j] + (a[i] == b[j] ? 0 : 1))
            if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { row[j + 1] = min(row[j + 1], twoAbove[j - 1] + 1) }
        }
    }
    return row[b.count]
}
