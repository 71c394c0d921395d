internal import Linux
internal import Lua
internal import RunLoops

/// Texts for people who want to know what a program does: what waits, and in what; what is scheduled; what runs right now.
extension LuaHost {
    /// A line for each timer that is in a mode: those of the script, each once, the next one first.
    public func timersText() -> String {
        var seen: Set<UnsafeRawPointer> = []
        var entries: [InspectBinding.Entry] = []
        for mode in loop.modeNames {
            for entry in InspectBinding.entries(self, mode)
            where entry.kind == "timer" && seen.insert(entry.identity).inserted {
                entries.append(entry)
            }
        }
        guard !entries.isEmpty else { return "no timers" }
        entries.sort { ($0.next ?? 0) < ($1.next ?? 0) }
        let now = loop.now.nanoseconds
        return entries.map { InspectBinding.line($0, now) }.joined(separator: "\n")
    }

    /// A line for each task that waits: where it was made, in what it waits, where, since when, and what for.
    ///
    /// - Parameter none: the text when there are none.
    public func tasksText(orNone none: String = "no tasks wait") -> String {
        let waiting = fibersThatWait()
        guard !waiting.isEmpty else { return none }
        let now = loop.now.nanoseconds
        return waiting.map { fiber in
            var text = "\(title(of: fiber)): \(waitText(fiber))"
            if fiber.waitsSince != 0 { text += ", for \(Time.short(max(0, now - fiber.waitsSince))) s" }
            return text.shownInLine
        }.joined(separator: "\n")
    }

    /// What runs at this moment, with its stack. Called where Lua code is at an instruction, or between two callbacks.
    public func whereText() -> String {
        guard current != nil || loop.currentMode == nil else {
            return "nothing runs: the loop waits in mode \"\(loop.currentMode?.rawValue.shownInLine ?? "")\""
        }
        let title = current.map { self.title(of: $0) } ?? "Lua"
        let (frames, around) = framesOfWhatRuns()
        let head = "\(title) runs\(placeOfWhatRuns.map { " at \($0)" } ?? "")"
        let text = Failure(head, frames: frames).traceback
        return around.isEmpty
            ? text.shown : Failure("\(text)\nin a coroutine that is resumed here:", frames: around).traceback.shown
    }

    /// What a fiber is: "task made at app.lua:3", "the callback of timer "poll" made at app.lua:7".
    func title(of fiber: Fiber) -> String {
        guard let subject = subject(of: fiber)?.text else {
            if fiber.owner is ErrorHandlerRun { return "the function of rl.on_error" }
            return (fiber.owner as? MainTask)?.title ?? "a callback"
        }
        return fiber.subjectKind == "task" ? subject : "the callback of \(subject)"
    }

    /// "waits in rl.sleep at app.lua:9"
    func placeOfWait(_ fiber: Fiber) -> String {
        "waits in \(fiber.waitsIn)" + (fiber.stack.place.map { " at \($0)" } ?? "")
    }

    /// "waits in rl.sleep at app.lua:9, 1.8 s to go"
    func waitText(_ fiber: Fiber) -> String {
        var text = placeOfWait(fiber)
        if let waiter = fiber.sleeper?.takeUnretainedValue() as? Waiter,
            let more = waiter.detail(loop.now.nanoseconds, self)
        {
            text += ", \(more)"
        }
        return text
    }
}
