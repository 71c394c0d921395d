internal import CLuaSupport

/// What an error value says of itself, and the way there.
public struct Explanation {
    /// As lua says it, with the position if there is one.
    public let message: String
    /// The lines of the traceback, innermost first; nil: an error value that describes itself has none.
    public let frames: [String]?
    /// The host has raised it, to end what ran.
    public let isInterruption: Bool
}

extension Interpreter {
    /// Of the error value on top of a coroutine's stack, and that coroutine's traceback.
    public final func explanation(of stack: Stack) -> Explanation {
        let isInterruption = cl_is_interruption(stack.thread, -1) != 0
        return explanation(messageLength: cl_explain(main, stack.thread), isInterruption)
    }

    /// Of a chunk that failed, that was run as lua runs chunks; nil: the results are its own. Of a failure's, only the error value is
    /// left on the stack.
    public final func explanation(ofChunk stack: Stack, results: Int32) -> Explanation? {
        guard cl_is_failure(stack.thread, results) != 0 else { return nil }
        cl_to_text(stack.thread, -1)
        let length = stack.integer(-2) ?? state.pointee.length
        stack.pop(2)
        return explanation(messageLength: length, cl_is_interruption(stack.thread, -1) != 0)
    }

    /// Of the scratch buffer: a message, and a traceback behind it if there is more.
    private func explanation(messageLength: Int, _ isInterruption: Bool) -> Explanation {
        let bytes = scratchBytes
        let frames = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(messageLength))
        return Explanation(
            message: Self.shown(bytes.prefix(messageLength)),
            frames: frames.isEmpty ? nil : Self.frames(ofTraceback: String(anyBytes: frames)),
            isInterruption: isInterruption)
    }

    /// How much of a message is shown, in bytes.
    private static let shownLength = 65_536

    /// A message, or its beginning and how many bytes are left out.
    private static func shown(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        var part = bytes.prefix(shownLength)
        if part.count < bytes.count {
            // Not in the middle of a character.
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

    /// The message of an error, that is on top of the stack.
    public final func popMessage() -> String {
        cl_to_text(stack.thread, -1)
        stack.pop()
        return Self.shown(scratchBytes[...])
    }

    /// What messages call the object for which the host's own code runs in a fiber: `watcher of "src" made at app.lua:3`. nil: it says
    /// nothing of the kind.
    public final func servedBy(_ fiber: Fiber) -> String? {
        var length = 0
        return cl_subject(fiber.thread, &length).map {
            String(anyBytes: UnsafeRawBufferPointer(start: $0, count: length))
        }
    }

    /// Where a fiber is, which may wait.
    public final func frames(of fiber: Fiber) -> [String] {
        cl_trace(main, fiber.thread)
        return Self.frames(ofTraceback: scratch)
    }

    /// The stack of what runs right now, innermost first, and behind that the stack of the fiber, if that has resumed a coroutine
    /// of the script's own. For the host's thread, in a hook of its own or a function that Lua calls.
    public final func framesOfWhatRuns() -> (frames: [String], around: [String]) {
        guard let innermost = cl_innermost(state) else { return ([], []) }
        cl_trace(main, innermost)
        let frames = Self.frames(ofTraceback: scratch)
        guard let running, running.thread != innermost else { return (frames, []) }
        return (frames, self.frames(of: running))
    }

    /// The innermost line of the script's that runs right now.
    public final var placeOfWhatRuns: String? { cl_innermost(state).flatMap { Stack($0).place } }

    /// The lines of what luaL_traceback has made; the first is its heading.
    private static func frames(ofTraceback text: String) -> [String] {
        text.split(separator: "\n").dropFirst().map { String($0.first == "\t" ? $0.dropFirst() : $0) }
    }
}

extension Call {
    /// Raises "interrupted!", which an explanation tells from errors that scripts raise in the same words.
    public func raiseInterruption() -> Int32 { CL_RAISE_INTERRUPTION.rawValue }
}
