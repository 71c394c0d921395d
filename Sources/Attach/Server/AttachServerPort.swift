internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The port to which clients attach. It runs on its own thread, so it answers requests, and logs arriving and leaving
/// clients, even while the script blocks. The port is in no mode of the script's loop, and does not keep that loop
/// running.
final class AttachServerPort: @unchecked Sendable {
    // Sendable: only the port's thread uses the thread's properties; the other properties never change.
    let name: String
    private let description: [String]
    private let target: RunLoop.Handle
    private let entries: Entries
    private let handle: RunLoop.Handle
    private var thread: Linux.Thread?
    private let process = getpid()

    // The message port; used on the port's thread only.
    private var port: RunLoop.MessagePort?
    private var seats: [Int: Seat] = [:]
    private var isEnding = false
    /// Unanswered requests to report which code the Lua thread is running, or to interrupt that code.
    private var curious: [Curious] = []
    /// Loops that were asked to record. Kept, so that no new loop gets the memory address of an old one.
    private var askedToRecord: [ObjectIdentifier: RunLoop.Handle] = [:]

    /// Requests for a dump, in a process that does not record yet.
    private var dumps: [Curious] = []

    private struct Curious {
        let message: RunLoop.MessagePort.Message
        let timer: RunLoop.Timer
    }

    /// A client with its pending requests.
    private final class Seat {
        let client: AttachServerPeer
        let since: RunLoop.Instant
        var nexts: [RunLoop.MessagePort.Message] = []
        var questions: [Int: RunLoop.MessagePort.Message] = [:]
        var lastQuestion = 0
        var lastEntry = 0

        init(_ client: AttachServerPeer, _ since: RunLoop.Instant) {
            self.client = client
            self.since = since
        }
    }

    /// - Parameter description: The text for clients: the name, the script, the version of Lua.
    /// - Throws: The system's error.
    init(
        name: String, description: [String], target: RunLoop.Handle, entries: Entries
    ) throws(SystemError) {
        self.name = name
        self.description = description
        self.target = target
        self.entries = entries
        do throws(SystemError) {
            handle = try RunLoop.Handle()
        } catch {
            throw SystemError(error.call, name, errno: error.errno, reason: "no run loop can be made for it")
        }
        let port = RunLoop.MessagePort { [unowned self] _, message in take(message) }
        self.port = port
        try port.setName(name)
        port.departed = { [unowned self] _, sender in depart(sender) }
        port.warned = { [unowned self] _, text in announce("attach: \(text)") }
        do throws(SystemError) {
            thread = try Linux.Thread("rlhost attach") { [self] in run() }
        } catch {
            throw SystemError(error.call, name, errno: error.errno, reason: "no thread can be started for it")
        }
    }

    /// Gives up the port's name and notifies the clients. Waits for a short time until the clients have fetched their
    /// output.
    func close() {
        guard getpid() == process else {
            // A C module has forked. In the child, the thread and the name still belong to the parent.
            _ = Unmanaged.passRetained(self)
            return
        }
        handle.perform(in: [.default]) { [self] _ in end() }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        let loop = RunLoop(poller: EpollPoller(), handle: handle)
        loop.becomeCurrent()
        if let port { loop.add(port, to: .default) }
        loop.run()
        port?.invalidate()
        port = nil
        for seat in seats.values { farewell(seat) }
        seats = [:]
        loop.close()
    }

    private static let lastWait = Duration.milliseconds(500)

    private func end() {
        isEnding = true
        for seat in seats.values {
            seat.client.outbox.append(.end)
            pump(seat)
        }
        guard !seats.isEmpty else { return RunLoop.current.stop() }
        let loop = RunLoop.current
        loop.callBack(at: loop.now + Self.lastWait, in: [.default]) { _, _ in RunLoop.current.stop() }
    }

    private func take(_ message: RunLoop.MessagePort.Message) {
        // The client may have sent everything at once and disconnected, and so may be removed already.
        guard message.isSenderConnected else { return message.fail("there is no receiver for the answer") }
        guard let request = Attach.Request(rawValue: message.id) else {
            return message.fail("there is no such request")
        }
        if request == .hello { return welcome(message) }
        if request == .activity {
            let text = message.data.withUnsafeBytes { String(anyBytes: $0) }
            guard let nanoseconds = UInt64(text) else { return message.fail("this is not a number of nanoseconds") }
            haveLoopsRecorded()
            return message.answer(Attach.activity(nanoseconds))
        }
        if request == .tasks { return AttachServerSurvey.begin(for: message, handle, main: target) }
        guard let seat = seats[message.sender] else { return message.fail("the first message must be a hello") }
        let client = seat.client
        switch request {
        case .hello, .activity, .tasks: break
        case .next:
            seat.nexts.append(message)
            pump(seat)
        case .enter:
            guard let entry = Attach.Entry(message.data), entry.number > seat.lastEntry else {
                return message.fail("this is not an entry, or its number is out of order")
            }
            message.answer()
            seat.lastEntry = entry.number
            withSession(of: client) { $0.enter(entry) }
        case .interrupt:
            message.answer()
            end(seat, entriesUpTo: seat.lastEntry)
        case .whereabouts: wonder(message, .whereabouts)
        case .interruptCallback: wonder(message, .interrupt)
        case .dump: dump(message)
        case .complete, .ask:
            seat.lastQuestion += 1
            let number = seat.lastQuestion
            seat.questions[number] = message
            let text = message.data.withUnsafeBytes { String(anyBytes: $0) }
            withSession(of: client) { [self] session in
                let answer = session.answer(request, text).anyBytes
                handle.perform(in: [.default]) { [self] _ in
                    seats[client.number]?.questions.removeValue(forKey: number)?.answer(answer)
                }
            }
        }
    }

    /// A loop begins to record by itself after it has run for a second. If a client observes a loop, this function
    /// makes the loop record at once. It asks each loop only once, since asking wakes the loop.
    private func haveLoopsRecorded() {
        var recorded = 0
        RunLoop.forEachRecorder { _, _ in recorded += 1 }
        let handles = [target] + LuaHost.handlesOfThreads
        guard recorded < handles.count else { return }
        var asked: [ObjectIdentifier: RunLoop.Handle] = [:]
        for handle in handles {
            asked[ObjectIdentifier(handle)] = handle
            guard askedToRecord[ObjectIdentifier(handle)] == nil else { continue }
            handle.perform(in: [.common]) { loop in
                (loop.userInfo as? LuaHost)?.lasts()
            }
        }
        askedToRecord = asked
    }

    private func withSession(of client: AttachServerPeer, _ body: @escaping @Sendable (AttachServerSession) -> Void) {
        target.perform(in: [.common]) { loop in
            guard let server = (loop.userInfo as? LuaHost)?.attachServer, let session = server.session(of: client)
            else { return }
            body(session)
        }
    }

    private static let patience = Duration.seconds(1)

    /// Makes the Lua thread report, at its next instruction, which code it runs. Inside a C function there is no next
    /// instruction, so a timer answers after a second.
    private func wonder(_ message: RunLoop.MessagePort.Message, _ wish: Wishes) {
        let loop = RunLoop.current
        let timer = loop.callBack(at: loop.now + Self.patience, in: [.default]) { [weak self] _, _ in
            self?.satisfy(
                "it is in a C function or a system call that has not returned for 1 "
                    + "s\(Self.kernelPlace)"
            )
        }
        curious.append(Curious(message: message, timer: timer))
        entries.wish(wish)
    }

    private func satisfy(_ text: String) {
        for one in curious {
            one.timer.invalidate()
            one.message.answer(text.anyBytes)
        }
        curious = []
    }

    /// Called on the Lua thread.
    func tell(_ text: String) { handle.perform(in: [.default]) { [weak self] _ in self?.satisfy(text) } }

    // MARK: Dumps

    /// Writes the dump at once, or as soon as the main loop records. A loop that has made no pass after its first
    /// second does not record yet.
    private func dump(_ message: RunLoop.MessagePort.Message) {
        var isRecorded = false
        RunLoop.forEachRecorder { recorder, _ in if recorder.pointee.number == 0 { isRecorded = true } }
        if isRecorded { return write(message) }
        let loop = RunLoop.current
        let timer = loop.callBack(at: loop.now + Self.patience, in: [.default]) { [weak self] _, _ in
            self?.writeDumps(isLate: true)
        }
        dumps.append(Curious(message: message, timer: timer))
        entries.wish(.record)
    }

    private func writeDumps(remark: String = "", isLate: Bool = false) {
        for one in dumps {
            one.timer.invalidate()
            write(one.message, remark: remark, isLate: isLate)
        }
        dumps = []
    }

    /// Called on the Lua thread.
    func recordingBegins() {
        // Add the remark if nothing was recorded before this request.
        let remark = RunLoop.hasRecords ? "" : LuaHost.remarkOnNothing
        handle.perform(in: [.default]) { [weak self] _ in self?.writeDumps(remark: remark) }
    }

    private func write(_ message: RunLoop.MessagePort.Message, remark: String = "", isLate: Bool = false) {
        let path = message.data.withUnsafeBytes { String(anyBytes: $0) }
        let refusal = LuaHost.recorder?(.dump(path: path))
        if isLate, refusal?.errno == ENODATA {
            return message.answer(
                "-nothing is recorded: it is in a C function or a system call that has not returned"
                    .anyBytes)
        }
        message.answer((refusal.map { "-\($0)" } ?? "+\(remark)").anyBytes)
    }

    /// ", in hrtimer_nanosleep": the kernel's name for the place of the main thread.
    private static var kernelPlace: String {
        let text = Attach.contents(of: "/proc/self/wchan", most: 64) ?? ""
        return text.isEmpty || text == "0" ? "" : ", in \(text)"
    }

    private func end(_ seat: Seat, entriesUpTo entry: Int) {
        let client = seat.client
        client.end(entriesUpTo: entry, last: seat.lastEntry)
        if client.isGone, !isEnding { pursue(client) }
        // The loop notices `raiseAttention` in any mode. If no run of the loop handles it, the request below does, in
        // the common modes.
        target.raiseAttention()
        target.perform(in: [.common]) { loop in (loop.userInfo as? LuaHost)?.attachServer?.attend() }
    }

    /// Ends the entry of a client that is gone and cannot repeat its request to interrupt.
    private func pursue(_ client: AttachServerPeer) {
        var attempts = 0
        let timer = RunLoop.Timer(fireDate: RunLoop.current.now + .milliseconds(200), interval: .milliseconds(200)) {
            timer, _ in
            attempts += 1
            if !client.pursue(atAnyPrice: attempts > 5) { timer.invalidate() }
        }
        RunLoop.current.add(timer, to: .default)
    }

    private func pump(_ seat: Seat) {
        while !seat.nexts.isEmpty, let events = seat.client.outbox.take() {
            seat.nexts.removeFirst().answer(events)
        }
    }

    // MARK: Arrivals and departures

    private func welcome(_ message: RunLoop.MessagePort.Message) {
        let lines = message.data.withUnsafeBytes { String(anyBytes: $0) }.split(
            separator: "\n", omittingEmptySubsequences: false)
        guard lines.first.flatMap({ Int($0) }) == Attach.version, seats[message.sender] == nil, !isEnding else {
            return message.fail(
                isEnding
                    ? "the process ends"
                    : "attach format \(lines.first ?? ""); this rlhost reads \(Attach.version): "
                        + "use the same rlhost for both"
            )
        }
        let number = message.sender
        let outbox = AttachServerOutbox { [handle] in
            handle.perform(in: [.default]) { [weak self] _ in
                if let self, let seat = seats[number] { pump(seat) }
            }
        }
        let client = AttachServerPeer(number: number, process: message.process, running: entries, outbox: outbox)
        seats[number] = Seat(client, RunLoop.current.now)
        message.answer(Array(([String(Attach.version)] + description).joined(separator: "\n").utf8))
        // The client's message has the name of its terminal. Do not trust any other part of the message.
        let place = lines.count > 1 ? lines[1].unicodeScalars.filter { $0.value > 0x20 && $0.value < 0x7F } : .init()
        announce("process \(client.process)\(place.isEmpty ? "" : " on \(String(place.prefix(60)))") has attached")
    }

    private func depart(_ number: Int) {
        guard let seat = seats.removeValue(forKey: number) else { return }
        farewell(seat)
        if isEnding, seats.isEmpty { RunLoop.current.stop() }
    }

    private func farewell(_ seat: Seat) {
        seat.client.outbox.close()
        end(seat, entriesUpTo: .max)
        let seconds = (RunLoop.current.now - seat.since).components.seconds
        announce("process \(seat.client.process) has detached after \(seconds) s")
    }

    private func announce(_ text: String) {
        // The program that reads the log may be stopped, and a client may have attached to find out why, so writing
        // must not wait for that program.
        guard Descriptor.poll(2, POLLOUT) & POLLOUT != 0 else { return }
        "rlhost: \(LocalTime.text(RunLoop.wallClock)) \(text.shown)\n".withAnyBytes { _ = Descriptor.write($0, to: 2) }
    }
}
