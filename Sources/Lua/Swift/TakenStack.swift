internal import CLuaSupport

/// A copy of a coroutine's stack, which becomes text when somebody asks for it.
public final class TakenStack {
    private let copy: OpaquePointer

    /// Returns nil if there is no memory.
    public init?(_ stack: Stack) {
        guard let copy = cl_take_stack(stack.thread) else { return nil }
        self.copy = copy
    }

    deinit { cl_free_stack(copy) }

    /// The script's innermost line: "app.lua:9".
    public var place: String? {
        var line: Int32 = 0
        return cl_place_of_stack(copy, &line).map { "\(String(anyBytes: $0)):\(line)" }
    }

    /// Whether it has a line of the script's.
    public var hasPlace: Bool { cl_has_place(copy) != 0 }

    /// Whether the outermost function is the host's own.
    public var isServed: Bool { cl_is_served(copy) != 0 }

    /// The lines of the traceback, innermost first.
    public func frames(_ interpreter: Interpreter) -> [String] {
        cl_show_stack(interpreter.main, copy)
        return interpreter.scratch.split(separator: "\n").map(String.init)
    }
}
