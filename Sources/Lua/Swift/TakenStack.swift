internal import CLuaSupport

/// A copy of a coroutine's stack, which is converted to text on demand. References are counted by explicit calls of
/// `keep` and `drop`, always on one thread: wrapping the copy in a class would double its cost.
public struct TakenStack {
    private let copy: OpaquePointer?

    /// Copies a stack; the copy is empty if there is no memory.
    public init(_ stack: Stack) { copy = cl_take_stack(stack.thread) }

    public static var none: TakenStack { TakenStack() }
    private init() { copy = nil }

    public func keep() -> TakenStack {
        if let copy { cl_keep_stack(copy) }
        return self
    }

    public func drop() { if let copy { cl_drop_stack(copy) } }

    /// The script's innermost line: "app.lua:9".
    public var place: String? {
        guard let copy else { return nil }
        var line: Int32 = 0
        return cl_place_of_stack(copy, &line).map { "\(String(anyBytes: $0)):\(line)" }
    }

    /// Whether the stack contains a line of the script.
    public var hasPlace: Bool { copy.map { cl_has_place($0) != 0 } ?? false }

    /// Whether the outermost function is the host's own.
    public var isServed: Bool { copy.map { cl_is_served($0) != 0 } ?? false }

    /// The lines of the traceback, innermost first.
    public func frames(_ interpreter: Interpreter) -> [String] {
        guard let copy else { return [] }
        cl_show_stack(interpreter.main, copy)
        return interpreter.scratch.split(separator: "\n").map(String.init)
    }
}
