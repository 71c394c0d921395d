internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The prompt of an attached client, in the process where Lua runs: the prompt's locals, its last results, and the
/// entry that runs or waits.
final class AttachServerSession {
    private unowned let server: AttachServer
    private unowned let host: LuaHost
    let client: AttachServerPeer
    private let script: PromptScript
    /// The first entry runs or waits; the others are queued.
    private var entries: [Attach.Entry] = []
    private var task: MainTask?
    /// Whether code of the first entry is on the stack; false while the entry waits.
    private(set) var isRunning = false
    /// The number of runs of the loop that were in progress when the entry began or continued.
    private(set) var depth = 0
    private var wasInterrupted = false
    private var outer: [(place: Sink.Place, entry: UInt64)] = []
    private lazy var sink = Sink { [unowned self] in print($0) }

    /// Returns nil if memory is exhausted, or if Lua lacks something that the prompt needs.
    init?(_ server: AttachServer, _ host: LuaHost, _ client: AttachServerPeer) {
        self.server = server
        self.host = host
        self.client = client
        guard let script = PromptScript(host, guest: LuaHost.guestChunkName) else { return nil }
        self.script = script
    }

    // MARK: Questions

    func answer(_ request: Attach.Request, _ text: String) -> String {
        switch request {
        case .complete:
            let (start, candidates) = script.complete(text)
            return (["\(start)"] + candidates).joined(separator: "\n")
        case .ask where text == "why": return host.why()
        case .ask where text == "timers": return host.timersText()
        case .ask where text == "tasks": return host.tasksText()
        case .ask where text == "traceback": return script.traceback()
        case .ask where text == "follow": return server.follow(client)
        case .ask:
            let parts = text.split(separator: " ", maxSplits: 1).map(String.init)
            switch parts.first {
            case "help" where parts.count == 2: return script.help(parts[1])
            case "reload" where parts.count == 2: return script.reload(parts[1])
            case "hint" where parts.count == 2: return script.hint(parts[1]) ?? ""
            default: return "?"
            }
        case .hello, .next, .enter, .interrupt, .whereabouts, .interruptCallback, .activity, .tasks, .dump: return ""
        }
    }

    // MARK: Entries

    func enter(_ entry: Attach.Entry) {
        entries.append(entry)
        if entries.count == 1 { begin() }
    }

    private func begin() {
        guard let entry = entries.first else { return }
        guard client.begins(entry.number) else {
            entries.removeFirst()
            if !entries.isEmpty { host.loop.perform { [weak self] in self?.begin() } }
            return
        }
        guard !client.isUnwanted(entry.number) else { return end("interrupted", "interrupted!") }
        client.outbox.append(.started, "\(entry.number)")
        wasInterrupted = false
        client.outbox.isWanted = entry.isWhole ? { [unowned client] in !client.isUnwanted(entry.number) } : nil
        if let message = script.compile(entry.text) { return end("failed", message) }
        let started = host.start { [unowned self] task in
            self.task = task
            task.title = "an entry of process \(client.process), which has attached,"
            task.recordedAs = ("entry", LuaHost.guestChunkName)
            task.onRunning = { [unowned self] in runs($0) }
            task.onResults = { [unowned self] thread, count in
                // Converting the values to text may call functions of the script.
                runs(true)
                let text = script.show(
                    thread, count, width: entry.width, color: entry.usesColor, deep: entry.isDeep, plain: entry.isPlain)
                runs(false)
                if client.isUnwanted(entry.number) { return end("interrupted", "interrupted!") }
                if let text { client.outbox.append(.result, text + "\n") }
                end("ok")
            }
            task.onError = { [unowned self] stack, failure in
                let isCancelled = failure.cause == .cancelled
                let isEnding = isCancelled || client.isUnwanted(entry.number) && failure.cause == .interrupted
                end(
                    isEnding ? "interrupted" : "failed",
                    // Converting the error to text may call functions of the script.
                    script.failed(stack, failure, width: entry.width, color: entry.usesColor))
            }
        }
        if started == nil { return end("failed", "not enough memory") }
        if client.isUnwanted(entry.number) { interrupt() }
    }

    /// Reports how the first entry has ended. The next one begins in the next pass.
    private func end(_ how: String, _ message: String? = nil) {
        task = nil
        guard !entries.isEmpty else { return }
        let entry = entries.removeFirst()
        if let message { client.outbox.append(.error, message + "\n") }
        client.outbox.append(.ended, "\(entry.number) \(how)")
        guard !entries.isEmpty else { return }
        host.loop.perform { [weak self] in self?.begin() }
    }

    private func runs(_ runs: Bool) {
        isRunning = runs
        if runs {
            depth = host.loop.depth
            let number = client.identity(ofEntry: entries.first?.number ?? 0)
            outer.append((Sink.redirect(to: sink.place), Interpreter.entryRuns(number)))
            // The port's thread first marks the entry as unwanted, and then checks whether it runs. This thread first
            // notes that the entry runs, and then checks the mark. So at least one of the two threads notices the
            // request, whenever it comes. An entry that was cancelled during its wait already has its error.
            if let entry = entries.first, client.isUnwanted(entry.number), !wasInterrupted {
                host.interruptEntry(number)
            }
        } else if let before = outer.popLast() {
            _ = Sink.redirect(to: before.place)
            _ = Interpreter.entryRuns(before.entry)
            isRunning = !outer.isEmpty
        }
    }

    /// Sends printed text as output of the entry. If the entry runs the loop, output of callbacks in that run does not
    /// belong to the entry.
    private func print(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard host.loop.depth == depth else { return server.passOn(bytes) }
        client.outbox.append(.output, bytes)
        return true
    }

    // MARK: Interruptions

    /// Whether the running entry must end because the client has withdrawn it or is gone.
    var isEnding: Bool { isRunning && (client.isGone || entries.first.map { client.isUnwanted($0.number) } ?? false) }

    /// Called between two callbacks of the loop. If the entry that runs or waits must end, ends it.
    func interrupt() {
        guard let entry = entries.first, client.isUnwanted(entry.number), let task, !task.hasEnded else { return }
        if isRunning {
            // The entry runs the loop itself.
            host.loop.stopRuns(from: depth)
            host.interruptEntry(client.identity(ofEntry: entry.number))
        } else if !wasInterrupted && !client.isGone {
            wasInterrupted = true
            task.cancel()
        } else {
            kill(task)
        }
    }

    /// Ends an entry that ignores cancellation, or whose client is gone.
    private func kill(_ task: MainTask) {
        task.abandon()
        end("interrupted", "interrupted!")
    }

    /// Called when the client is gone. Returns whether the session can be removed: not while its code runs.
    func close() -> Bool {
        interrupt()
        guard !isRunning else { return false }
        entries = []
        for message in script.close() { host.onWarning(host, "attach: \(message)") }
        return true
    }
}
