internal import Lua
package import RunLoops

/// What of a state's recordings it keeps itself: what its objects are called, and its open spans.
final class LuaRecording: HostPart {
    /// The labels of what is told apart by its key, in places given by that; the latest of a place stays.
    private let labels = UnsafeMutablePointer<(key: UInt32, label: UInt32)>.allocate(capacity: LuaRecording.places)
    private static let places = 256
    /// Outermost first.
    var spans: [(fiber: Int, label: UInt32)] = []

    required init(_ host: LuaHost) {
        labels.initialize(repeating: (.max, 0), count: Self.places)
        super.init(host)
    }

    deinit { labels.deallocate() }

    override func reset() { spans = [] }

    @inline(__always)
    func label(_ key: UInt32, _ kind: () -> String) -> UInt32 {
        let place = labels + Int((key ^ key >> 24 &* 37) & UInt32(Self.places - 1))
        if place.pointee.key == key { return place.pointee.label }
        place.pointee = (key, host.label(kind(), name: "", site: key & 0xFF_FFFF))
        return place.pointee.label
    }
}

extension LuaHost {
    /// Has this state's loop recorded from now on, if it is not. Returns false when there is no memory.
    @discardableResult
    package func record() -> Bool {
        guard loop.record(as: thread?.name ?? "main") else { return false }
        guard recording == nil else { return true }
        recording = .passUnretained(part(LuaRecording.self))
        tells = true
        loop.titles = { [unowned(unsafe) self] in title(of: $0) }
        return true
    }

    private static let mainChunk = "main chunk"

    /// nil: it is told, by `goesOn`, when a task goes on.
    private func title(of item: RunLoop.Item) -> RunLoop.Recorder.Title? {
        if item.owner is Waiter { return nil }
        guard item.owner === items, let box = item.box else {
            var title = RunLoop.Recorder.Title(of: item)
            for part in parts { title.place = part.place(of: item) ?? title.place }
            return title
        }
        return title(box.kindName, name: item.name, site: box.site)
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

    /// Names the callback that runs, of an object that has no name of its own.
    @inline(__always)
    func tellSubject(_ box: Box, _ fiber: Fiber) {
        guard loop.isRecording, let recording else { return }
        let label = recording._withUnsafeGuaranteedRef { $0.label(box.subjectKey) { box.kindName } }
        loop.recorder.pointee.name(label, fiber: fiber.number)
    }

    /// What recordings call an object of a script that another loop calls back; 0 while this one records nothing.
    func labelForOthers(_ box: Box, at site: @autoclosure () -> UInt32) -> UInt32 {
        guard loop.isRecording, let recording else { return 0 }
        box.site = site()
        return recording._withUnsafeGuaranteedRef { $0.label(box.subjectKey) { box.kindName } }
    }

    /// The same of a timer's, which may have a name. One that has fired before has told it.
    @inline(__always)
    func tellSubject(_ box: Box, _ node: UnsafeMutablePointer<RunLoop.TimerNode>, _ fiber: Fiber) {
        guard loop.isRecording else { return }
        if node.pointee.label == 0 { findLabel(box, node) }
        loop.recorder.pointee.name(node.pointee.label, fiber: fiber.number)
    }

    private func findLabel(_ box: Box, _ node: UnsafeMutablePointer<RunLoop.TimerNode>) {
        guard let recording else { return }
        node.pointee.label =
            box.flags & TimerBinding.named == 0
            ? recording._withUnsafeGuaranteedRef { $0.label(box.subjectKey) { box.kindName } }
            : label("timer", name: nameOfAnchored(UInt32(node.pointee.context)) ?? "", site: box.site)
    }

    /// What of a callback, whose item is named already, may go on later.
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
        if fiber.label == 0 { findLabel(fiber, recording) }
        let isPiece = loop.recorder.pointee.goesOn(fiber.label, task: fiber.number)
        guard !recording.spans.isEmpty else { return isPiece }
        for span in recording.spans where span.fiber == fiber.context {
            loop.recorder.pointee.beginNow(span.label, task: UInt32(truncatingIfNeeded: fiber.number))
        }
        return isPiece
    }

    private func findLabel(_ fiber: Fiber, _ recording: LuaRecording) {
        fiber.label = recording.label(fiber.subjectKey) {
            if fiber.owner is ErrorHandlerRun { return "rl.on_error" }
            return fiber.subjectKind ?? (fiber.owner is MainTask ? Self.mainChunk : "callback")
        }
    }

    func tellWaiting(_ fiber: Fiber) {
        guard loop.isRecording, let recording else { return }
        recording._withUnsafeGuaranteedRef { if !$0.spans.isEmpty { tellSpansEnd(fiber, $0.spans) } }
        loop.recorder.pointee.waits(fiber.number, in: fiber.waitsIn)
    }

    private func tellSpansEnd(_ fiber: Fiber, _ spans: [(fiber: Int, label: UInt32)]) {
        for span in spans where span.fiber == fiber.context {
            loop.recorder.pointee.endWaiting(fiber.number, in: fiber.waitsIn)
        }
    }

    func tellFailing() { loop.recorder.pointee.fails() }

    func tellResting() { if loop.isRecording { loop.recorder.pointee.end() } }

    // MARK: Spans

    /// A stretch of the script's own begins in the task that runs. Waits do not count.
    package func beginSpan(_ title: RunLoop.Recorder.Title) {
        guard loop.isRecording, let recording = recording?.takeUnretainedValue() else { return }
        let label = RunLoop.Recorder.label(title)
        recording.spans.append((current?.context ?? 0, label))
        loop.recorder.pointee.beginNow(label)
        loop.recorder.pointee.name(fiber: current?.number ?? 0)
    }

    /// The latest one of the task that runs ends.
    package func endSpan() {
        let fiber = current?.context ?? 0
        guard let recording = recording?.takeUnretainedValue(),
            let place = recording.spans.lastIndex(where: { $0.fiber == fiber })
        else { return }
        let span = recording.spans.remove(at: place)
        // A task that is cancelled where it waits has no piece in progress.
        if loop.isRecording { loop.recorder.pointee.end(span.label) }
    }
}
