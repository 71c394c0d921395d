internal import Lua
package import RunLoops

/// The open spans of a state's recordings; the recorder of its loop keeps everything else.
final class LuaRecording: HostPart {
    /// Outermost first.
    var spans: [(fiber: Int, label: UInt32)] = [] { didSet { host.openSpans = spans.count } }

    override func reset() { spans = [] }
}

extension LuaHost {
    /// Starts recording this state's loop, if it is not recorded yet. Returns false if there is no memory.
    @discardableResult
    package func record() -> Bool {
        guard loop.record(as: thread?.name ?? "main") else { return false }
        guard recording == nil else { return true }
        recording = .passUnretained(part(LuaRecording.self))
        tells = true
        loop.recorder.pointee.forgetSubjects()
        loop.labels = { [unowned(unsafe) self] in label(of: $0) }
        return true
    }

    /// Whether recordings contain the arguments of programs, not only their names. Set before there is a second thread.
    package nonisolated(unsafe) static var recordsArguments = false

    /// The message for an empty dump.
    package static let remarkOnNothing = "nothing was recorded until now; everything is from now on"

    private static let mainChunk = "main chunk"

    /// Whether a label stands for the script, or the function of a thread.
    package func isMainChunk(_ label: UInt32) -> Bool {
        RunLoop.Recorder.title(label).map { $0.kind == "task" && $0.text == Self.mainChunk } ?? false
    }

    /// Returns the text for this label in this state: "the main chunk", "the function made at app.lua:3".
    package var mainChunkText: String {
        guard let thread else { return "the main chunk" }
        return "the function" + (thread.site.map { " made at \($0)" } ?? "")
    }

    /// Whether the loop may be held up: it belongs to a thread of a pool, whose functions may block.
    package var isThereToBeHeld: Bool { thread?.isOfPool ?? false }

    /// Returns the label of an item; 0 if `goesOn` reports it when a task goes on.
    private func label(of item: RunLoop.Item) -> UInt32 {
        if item.owner === items, let box = item.box {
            guard item.name.isEmpty, let subjects = loop.recorder.pointee.subjects else {
                return label(box.kindName, name: item.name, site: box.site)
            }
            // Many items are made at the same site, so make their text only once.
            return label(of: box, in: subjects)
        }
        if item.owner is Waiter { return 0 }
        var title = RunLoop.Recorder.Title(of: item)
        for part in parts { title.place = part.place(of: item) ?? title.place }
        return RunLoop.Recorder.label(title, isForeign: item is RunLoop.EdgePort)
    }

    /// Returns the label that all unnamed objects of a kind share if they are made at one site.
    @inline(__always)
    private func label(of box: Box, in subjects: UnsafeMutablePointer<RunLoop.Recorder.Subject>) -> UInt32 {
        let place = subjects + RunLoop.Recorder.place(ofSubject: box.subjectKey)
        return place.pointee.key == box.subjectKey ? place.pointee.label : makeLabel(of: box, at: place)
    }

    @inline(never)
    private func makeLabel(of box: Box, at place: UnsafeMutablePointer<RunLoop.Recorder.Subject>) -> UInt32 {
        makeLabel(box.subjectKey, box.kindName, at: place)
    }

    private func makeLabel(
        _ key: UInt32, _ kind: String, at place: UnsafeMutablePointer<RunLoop.Recorder.Subject>
    ) -> UInt32 {
        place.pointee.key = key
        place.pointee.label = label(kind, name: "", site: key & 0xFF_FFFF)
        return place.pointee.label
    }

    private func title(_ word: String, name: String, site: UInt32) -> RunLoop.Recorder.Title {
        if word == Self.mainChunk { return .init("task", word, place: Self.script ?? "") }
        let kind =
            switch word {
            case "timer", "source", "observer", "request", "task", "port": word
            case "fd_port", "signal": "port"
            case "message_port": "message"
            default: "other"
            }
        return .init(kind, word: word, name: name, place: self.site(site) ?? "")
    }

    fileprivate func label(_ word: String, name: String, site: UInt32) -> UInt32 {
        RunLoop.Recorder.label(title(word, name: name, site: site))
    }

    /// Names the running callback of an object that has no name of its own.
    @inline(__always)
    func tellSubject(_ box: Box, _ fiber: Fiber) {
        guard let subjects = loop.recorder.pointee.subjects else { return }
        loop.recorder.pointee.name(label(of: box, in: subjects), fiber: fiber.number)
    }

    /// Returns the label of a script's object whose callback another loop runs; 0 while this loop records nothing.
    func labelForOthers(_ box: Box, at site: @autoclosure () -> UInt32) -> UInt32 {
        guard let subjects = loop.recorder.pointee.subjects else { return 0 }
        box.site = site()
        return label(of: box, in: subjects)
    }

    /// Names the running callback of a timer, which may have a name. The label is made when the timer first fires.
    @inline(__always)
    func tellSubject(_ box: Box, _ node: UnsafeMutablePointer<RunLoop.TimerNode>, _ fiber: Fiber) {
        guard let subjects = loop.recorder.pointee.subjects else { return }
        if node.pointee.label == 0 {
            node.pointee.label =
                box.flags & TimerBinding.named == 0 ? label(of: box, in: subjects) : labelByName(box, node)
        }
        loop.recorder.pointee.name(node.pointee.label, fiber: fiber.number)
    }

    @inline(never)
    private func labelByName(_ box: Box, _ node: UnsafeMutablePointer<RunLoop.TimerNode>) -> UInt32 {
        label("timer", name: nameOfAnchored(UInt32(node.pointee.context)) ?? "", site: box.site)
    }

    /// Records which fiber runs the callback, since the fiber may continue it later. The callback has a label already.
    @inline(__always)
    func tellSubject(_ fiber: Fiber) {
        if loop.isRecording { loop.recorder.pointee.name(fiber: fiber.number) }
    }

    /// See `Interpreter.goesOn`.
    func tellGoingOn(_ fiber: Fiber) -> Bool {
        guard loop.isRecording, let recording else { return false }
        return recording._withUnsafeGuaranteedRef { tellGoingOn(fiber, $0) }
    }

    private func tellGoingOn(_ fiber: Fiber, _ recording: LuaRecording) -> Bool {
        if fiber.label == 0 { findLabel(fiber) }
        let isPiece = loop.recorder.pointee.goesOn(fiber.label, task: fiber.number)
        guard !recording.spans.isEmpty else { return isPiece }
        for span in recording.spans where span.fiber == fiber.context {
            loop.recorder.pointee.beginNow(span.label, task: UInt32(truncatingIfNeeded: fiber.number))
        }
        return isPiece
    }

    private func findLabel(_ fiber: Fiber) {
        if let (word, place) = fiber.owner?.recorded {
            fiber.label = RunLoop.Recorder.label(.init("task", word, place: place))
            return
        }
        guard let subjects = loop.recorder.pointee.subjects else { return }
        let key = fiber.subjectKey
        let place = subjects + RunLoop.Recorder.place(ofSubject: key)
        fiber.label = place.pointee.key == key ? place.pointee.label : makeLabel(key, kind(of: fiber), at: place)
    }

    private func kind(of fiber: Fiber) -> String {
        if fiber.owner is ErrorHandlerRun { return "rl.on_error" }
        return fiber.subjectKind ?? (fiber.owner is MainTask ? Self.mainChunk : "callback")
    }

    /// Interrupts the open spans of a fiber when the fiber begins to wait.
    func tellSpansEnd(_ fiber: Fiber) {
        guard loop.isRecording, let spans = recording?.takeUnretainedValue().spans else { return }
        for span in spans where span.fiber == fiber.context {
            loop.recorder.pointee.endWaiting(fiber.number, in: fiber.waitsIn)
        }
    }

    func tellFailing() { loop.recorder.pointee.fails() }

    func tellResting() { if loop.isRecording { loop.recorder.pointee.end() } }

    // MARK: Spans

    /// Begins a span, which the script has defined, in the running task. Time spent waiting does not count.
    package func beginSpan(_ title: RunLoop.Recorder.Title) {
        guard loop.isRecording, let recording = recording?.takeUnretainedValue() else { return }
        let label = RunLoop.Recorder.label(title)
        recording.spans.append((current?.context ?? 0, label))
        loop.recorder.pointee.beginNow(label)
        loop.recorder.pointee.name(fiber: current?.number ?? 0)
    }

    /// Ends the latest span of the running task.
    package func endSpan() {
        let fiber = current?.context ?? 0
        guard let recording = recording?.takeUnretainedValue(),
            let place = recording.spans.lastIndex(where: { $0.fiber == fiber })
        else { return }
        let span = recording.spans.remove(at: place)
        // If the task was cancelled while it waited, no section of the span is in progress.
        if loop.isRecording { loop.recorder.pointee.end(span.label) }
    }
}
