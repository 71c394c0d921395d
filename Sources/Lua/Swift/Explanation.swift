internal import CLuaSupport

/// The message of an error value, and the traceback.
public struct Explanation {
    /// The message as lua writes it, with the position if it has one.
    public let message: String
    /// The lines of the traceback, innermost first; nil for an error value that describes itself.
    public let frames: [String]?
    /// Whether the host has raised the error, to end the running code.
    public let isInterruption: Bool
}

extension Interpreter {
    /// Explains the error value on top of a coroutine's stack, with that coroutine's traceback.
    public final func explanation(of stack: Stack) -> Explanation {
        let isInterruption = isInterruption(stack)
        return explanation(messageLength: cl_explain(main, stack.thread), isInterruption)
    }

    /// Whether the host has raised the error value on top of a stack, to end the running code.
    public final func isInterruption(_ stack: Stack) -> Bool { cl_is_interruption(stack.thread, -1) != 0 }

    /// Explains the failure of a chunk that ran through `Stack.pushChunkRunner`. Returns nil if the results are those
    /// of a chunk that did not fail. After a failure only the error value stays on the stack.
    public final func explanation(ofChunk stack: Stack, results: Int32) -> Explanation? {
        guard cl_is_failure(stack.thread, results) != 0 else { return nil }
        cl_to_text(stack.thread, -1)
        let length = stack.integer(-2) ?? state.pointee.length
        stack.pop(2)
        return explanation(messageLength: length, cl_is_interruption(stack.thread, -1) != 0)
    }

    /// Converts the scratch buffer: it has a message, and maybe a traceback after it.
    private func explanation(messageLength: Int, _ isInterruption: Bool) -> Explanation {
        let bytes = scratchBytes
        let frames = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(messageLength))
        return Explanation(
            message: Self.shown(bytes.prefix(messageLength)),
            frames: frames.isEmpty ? nil : Self.frames(ofTraceback: String(anyBytes: frames)),
            isInterruption: isInterruption)
    }

    /// The largest number of bytes that are shown of a message.
    private static let shownLength = 65_536

    /// Returns a message, or its beginning and the number of bytes left out.
    private static func shown(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        var part = bytes.prefix(shownLength)
        if part.count < bytes.count {
            // Does not cut inside a character.
            while let next = bytes.dropFirst(part.count).first, next & 0xC0 == 0x80, part.count > shownLength - 4 {
                part = part.dropLast()
            }
        }
        let text = String(anyBytes: UnsafeRawBufferPointer(rebasing: part))
        return part.count < bytes.count ? "\(text)... (\(bytes.count - part.count) more bytes)" : text
    }

    private var scratchBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: state.pointee.scratch, count: state.pointee.length)
    }

    /// Pops the error value on top of the stack and returns its message.
    public final func popMessage() -> String {
        cl_to_text(stack.thread, -1)
        stack.pop()
        return Self.shown(scratchBytes[...])
    }

    /// Returns the description of the object that the host's Lua code serves in a fiber, such as `watcher of "src" made
    /// at app.lua:3`, or nil if there is none.
    public final func servedBy(_ fiber: Fiber) -> String? {
        var length = 0
        return cl_subject(fiber.thread, &length).map {
            String(anyBytes: UnsafeRawBufferPointer(start: $0, count: length))
        }
    }

    /// Returns the traceback of a fiber, which may wait.
    public final func frames(of fiber: Fiber) -> [String] {
        cl_trace(main, fiber.thread)
        return Self.frames(ofTraceback: scratch)
    }

    /// Returns the stack of the running code, innermost first. If the code runs in a coroutine that the script has
    /// made, also returns the stack of the fiber around it. May be called on the host's thread, in a hook of the host
    /// or in a function that Lua calls.
    public final func framesOfWhatRuns() -> (frames: [String], around: [String]) {
        guard let innermost = cl_innermost(state) else { return ([], []) }
        cl_trace(main, innermost)
        let frames = Self.frames(ofTraceback: scratch)
        guard let running, running.thread != innermost else { return (frames, []) }
        return (frames, self.frames(of: running))
    }

    /// The script's innermost line in the running code.
    public final var placeOfWhatRuns: String? { cl_innermost(state).flatMap { Stack($0).place } }

    /// Returns the lines of a traceback by luaL_traceback, without its heading.
    private static func frames(ofTraceback text: String) -> [String] {
        text.split(separator: "\n").dropFirst().map { String($0.first == "\t" ? $0.dropFirst() : $0) }
    }
}

extension Call {
    /// Raises "interrupted!". An explanation distinguishes it from an error of the same words that a script raises.
    public func raiseInterruption() -> Int32 { CL_RAISE_INTERRUPTION.rawValue }
}
