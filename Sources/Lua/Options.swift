internal import CLua
internal import CLuaSupport

/// An options table: fields by name, each read once, by a raw traversal that can neither raise nor run the script's code.
public struct Options {
    let call: Call
    let function: StaticString
    let names: [StaticString]
    /// Stack index of the first field; the others follow in the order of `names`, nil where absent.
    let base: Int32
    /// How many positional values there are.
    public let positional: Int32

    /// Reads a table. Its fields are copied to the top of the stack.
    ///
    /// - Parameter positional: integer keys are values of their own, as in `perform{ fn, 1, 2, wait = true }`.
    public static func read(
        _ call: Call, _ index: Int32, of function: StaticString, _ names: [StaticString], positional: Bool = false
    ) -> Result<Options, Misuse> {
        guard call.type(index) == LUA_TTABLE else {
            return .failure(Misuse("\(function): an options table is expected, got \(call.describe(index))"))
        }
        let thread = call.thread
        guard lua_checkstack(thread, Int32(names.count) + 8) != 0 else { return .failure(Misuse("not enough memory")) }
        let base = lua_gettop(thread) + 1
        for _ in names { lua_pushnil(thread) }
        var last = 0
        lua_pushnil(thread)
        while lua_next(thread, index) != 0 {
            if positional, lua_isinteger(thread, -2) != 0 {
                last = max(last, Int(lua_tointegerx(thread, -2, nil)))
                cl_pop(thread, 1)
                continue
            }
            guard let key = call.bytes(-2) else {
                return .failure(Misuse("\(function): \(call.describe(-2)) is not the name of a field"))
            }
            guard let field = names.firstIndex(where: { matches($0, key) }) else {
                let name = String(decoding: key, as: UTF8.self)
                let near = nearest(to: name, names.map(\.description)).map { " (did you mean '\($0)'?)" } ?? ""
                return .failure(Misuse("\(function): unknown field '\(name)'\(near)"))
            }
            lua_copy(thread, -1, base + Int32(field))
            cl_pop(thread, 1)
        }
        guard last <= 250 else { return .failure(Misuse("\(function): too many arguments (at most 250)")) }
        return .success(
            Options(call: call, function: function, names: names, base: base, positional: Int32(last)))
    }

    /// The stack index of a field, by its place in `names`.
    public func index(_ field: Int) -> Int32 { base + Int32(field) }

    public func isMissing(_ field: Int) -> Bool { call.type(index(field)) == LUA_TNIL }

    public func wrong(_ field: Int, _ expected: String) -> Misuse {
        if isMissing(field) { return Misuse("\(function): field '\(names[field])' is missing (\(expected))") }
        return Misuse(
            "\(function): field '\(names[field])' must be \(expected), got \(call.describe(index(field)))")
    }

    private static func matches(_ name: StaticString, _ key: UnsafeRawBufferPointer) -> Bool {
        guard name.utf8CodeUnitCount == key.count else { return false }
        for i in 0..<key.count where name.utf8Start[i] != key[i] { return false }
        return true
    }

    /// The name most like a misspelt one, if any is like it at all.
    public static func nearest(to name: String, _ names: [String]) -> String? {
        let scored = names.map { (name: $0, distance: distance(Array(name.utf8), Array($0.utf8))) }
        guard let best = scored.min(by: { $0.distance < $1.distance }) else { return nil }
        return best.distance <= max(1, min(3, best.name.utf8.count / 2)) ? best.name : nil
    }

    // Levenshtein's distance, a row at a time.
    private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        guard a.count < 64 else { return 64 }
        var row = Array(0...b.count)
        for i in a.indices {
            var diagonal = row[0]
            row[0] = i + 1
            for j in b.indices {
                let above = row[j + 1]
                row[j + 1] = min(above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1))
                diagonal = above
            }
        }
        return row[b.count]
    }
}

/// A call that makes no sense: what to tell the caller.
public struct Misuse: Error {
    public let message: String
    public init(_ message: String) { self.message = message }
}
