internal import Linux
package import Lua
internal import RunLoops

/// Texts for people about the state of a program: its waiting tasks, its timers, and the running code.
extension LuaHost {
    /// Returns a line for each of the script's timers that is in a mode, the next one first.
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

    /// Returns a line for each waiting task: its creation site, the name, place and duration of its wait, and what it
    /// waits for.
    ///
    /// - Parameter none: the text if no task waits.
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

    /// Returns a text about the code that runs at this moment, with its stack. May be called from a Lua hook, or
    /// between two callbacks.
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

    /// Returns the title of a fiber: "task made at app.lua:3", "the callback of timer "poll" made at app.lua:7".
    func title(of fiber: Fiber) -> String {
        guard let subject = subject(of: fiber)?.text else {
            if fiber.owner is ErrorHandlerRun { return "the function of rl.on_error" }
            return (fiber.owner as? MainTask)?.title ?? "a callback"
        }
        return fiber.subjectKind == "task" ? subject : "the callback of \(subject)"
    }

    /// Returns a text such as "waits in rl.sleep at app.lua:9".
    package func placeOfWait(_ fiber: Fiber) -> String {
        "waits in \(fiber.waitsIn)" + (fiber.stack.place.map { " at \($0)" } ?? "")
            + (databaseCall(of: fiber).map { ", \($0)" } ?? "")
    }

    /// Returns the call of a database for which a fiber waits: `query "select 1" of postgres "orders" (for 2.1 s)`. Nil
    /// if no module for databases is loaded.
    private func databaseCall(of fiber: Fiber) -> String? {
        guard stack.reserve(8) else { return nil }
        let top = stack.top
        defer { stack.top = top }
        guard stack.pushInternals(), stack.replaceTop(withField: "call_of"), stack.type(-1) == .function
        else { return nil }
        fiber.stack.pushThread()
        fiber.stack.move(1, to: stack)
        stack.push(Time.seconds(loop.now.nanoseconds - fiber.waitsSince))
        return stack.call(arguments: 2, results: 1) ? stack.string(-1) : nil
    }

    /// Returns where the object for which a fiber waits was made: "future made at app.lua:3".
    func madeAt(_ fiber: Fiber) -> String? {
        site(fiber.objectSite).map { "\("\(fiber.waitsIn)".prefix { $0 != ":" }) made at \($0)" }
    }

    func placeAndOriginOfWait(_ fiber: Fiber) -> String {
        placeOfWait(fiber) + (origin(ofWait: fiber).map { ", \($0)" } ?? "")
    }

    /// Returns a line for each task that waits for another task through an object with a creation site, such as a
    /// future or a mutex.
    func waitsForTasks() -> [String] { waitsForOthers(besides: nil) }

    /// Returns these lines without the line of `chunk`.
    public func waitsForOthers(besides chunk: MainTask?) -> [String] {
        fibersThatWait().filter { Waiter.isForTasks($0) && $0.objectSite != 0 && (chunk == nil || $0.owner !== chunk) }
            .map { "\(title(of: $0)): \(waitText($0))".shownInLine }
    }

    /// Returns the creation site of the object that a fiber waits for, such as "future made at app.lua:3", and the
    /// holder of that object. Returns nil if the site is not known.
    func origin(ofWait fiber: Fiber) -> String? {
        guard let made = madeAt(fiber) else { return nil }
        guard Waiter.isForPlace(fiber), let holders = holders(of: fiber.stack, mutex: 2) else { return made }
        return "\(made), \(holders)"
    }

    /// Returns a text such as "waits in rl.sleep at app.lua:9, 1.8 s to go".
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
