import Glibc
import Linux
internal import Lua
import LuaPrompt
import LuaRunLoops
import RunLoops

/// The connection of `rlhost attach` to a process: sends requests, and receives events.
final class AttachClientConnection {
    let target: AttachClientTarget
    let loop = RunLoop.current
    private let remote: RunLoop.RemotePort
    /// The process's own description.
    private(set) var script = ""
    private(set) var release = ""
    private var lastEntry = 0
    private var questions: Set<Int> = []
    private var lastQuestion = 0
    private(set) var isLost = false
    private var busyTimer: RunLoop.Timer?

    /// Called with each event.
    var received: (Attach.Event, [UInt8]) -> Void = { _, _ in }
    /// Called once, when the process has ended or has closed the connection.
    var lost: () -> Void = {}
    /// Called when an entry has not begun to run after some time.
    var waits: () -> Void = {}

    /// The largest number of seconds to wait for the first answer.
    private static let patience = 5.0
    /// The number of requests for events that are always pending.
    private static let window = 8

    /// - Throws: A refusal if the process does not answer.
    init(_ target: AttachClientTarget) throws(Program.Refusal) {
        self.target = target
        AttachClientTarget.useRuntimeDirectory(target.runtimeDirectory)
        do throws(SystemError) {
            remote = try RunLoop.RemotePort(name: target.portName, on: loop)
        } catch {
            throw .init(message: "\(target.text) cannot be attached to: \(error.message)")
        }
        let place = ttyname(0).map { String(cString: $0) } ?? ""
        switch ask(.hello, "\(Attach.version)\n\(place)", seconds: Self.patience) {
        case .success(let answer):
            let lines = answer.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            script = lines.count > 2 ? lines[2] : ""
            release = lines.count > 3 ? lines[3] : ""
        case .failure(.replyTimedOut):
            let state = target.isStopped ?? "is it overloaded?"
            throw .init(message: "\(target.text) has not answered for \(Int(Self.patience)) s: \(state)")
        case .failure(.transport(let reason)): throw .init(message: "\(target.text) refuses: \(reason)")
        case .failure: throw .init(message: "\(target.text) has ended")
        }
        for _ in 0..<Self.window { askForEvents() }
    }

    private func askForEvents() {
        guard !isLost else { return }
        let conversation = remote.request(Attach.Request.next.rawValue, [])
        let settle: (Result<[UInt8], RunLoop.RemotePort.Failure>) -> Void = { [weak self] result in
            guard let self else { return }
            guard case .success(let bytes) = result else { return lose() }
            for (event, bytes) in Attach.events(in: bytes) { take(event, bytes) }
            askForEvents()
        }
        if let result = conversation.result { settle(result) } else { conversation.completion = settle }
    }

    private func take(_ event: Attach.Event, _ bytes: [UInt8]) {
        switch event {
        case .started, .ended:
            busyTimer?.invalidate()
            busyTimer = nil
        case .end: return lose()
        default: break
        }
        received(event, bytes)
    }

    private func lose() {
        guard !isLost else { return }
        isLost = true
        busyTimer?.invalidate()
        remote.invalidate()
        lost()
    }

    /// Closes the connection. The process continues.
    func close() {
        lost = {}
        lose()
    }

    /// Sends a question to the process and blocks until the answer comes. Returns nil if that takes too long.
    func question(_ request: Attach.Request, _ text: String, seconds: Double) -> String? {
        guard !isLost, case .success(let answer) = ask(request, text, seconds: seconds) else { return nil }
        return answer
    }

    /// Sends a question without blocking. If the answer takes a while, `waits` is called. `withdraw` makes the
    /// connection drop the answer.
    func ask(_ request: Attach.Request, _ text: String = "", _ answered: @escaping (String) -> Void) {
        guard !isLost else { return }
        lastQuestion += 1
        let number = lastQuestion
        questions.insert(number)
        let conversation = remote.request(request.rawValue, text.anyBytes)
        let settle: (Result<[UInt8], RunLoop.RemotePort.Failure>) -> Void = { [weak self] result in
            guard let self, questions.remove(number) != nil, case .success(let bytes) = result else { return }
            busyTimer?.invalidate()
            answered(String(decoding: bytes, as: UTF8.self))
        }
        if let result = conversation.result { return settle(result) }
        conversation.completion = settle
        // The port's thread answers all other requests, even if the loop is busy.
        if request == .ask { watchForPatience() }
    }

    /// Sends a request and calls a function with the answer; no code waits for it.
    func glance(_ request: Attach.Request, _ text: String = "", _ answered: @escaping (String) -> Void) {
        guard !isLost else { return }
        let conversation = remote.request(request.rawValue, text.anyBytes)
        let settle: (Result<[UInt8], RunLoop.RemotePort.Failure>) -> Void = { result in
            if case .success(let bytes) = result { answered(String(decoding: bytes, as: UTF8.self)) }
        }
        // Call the function later: the caller is about to draw.
        if let result = conversation.result {
            loop.perform { settle(result) }
        } else {
            conversation.completion = settle
        }
    }

    /// Drops the answers to all pending questions.
    func withdraw() {
        questions = []
        busyTimer?.invalidate()
    }

    private func ask(
        _ request: Attach.Request, _ text: String, seconds: Double
    ) -> Result<String, RunLoop.RemotePort.Failure> {
        remote.request(
            request.rawValue, text.anyBytes, replyTimeout: .seconds(seconds),
            runningIn: "rlhost attach"
        ).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Sends an entry with the next number. An event reports its end.
    func enter(_ entry: Attach.Entry) {
        lastEntry += 1
        var entry = entry
        entry.number = lastEntry
        let bytes = entry.bytes
        let conversation = remote.request(Attach.Request.enter.rawValue, bytes)
        if case .failure(.transport(let reason))? = conversation.result { return refuse(reason) }
        conversation.completion = { [weak self] result in
            if case .failure(.transport(let reason)) = result { self?.refuse(reason) }
        }
        watchForPatience()
    }

    /// A duration longer than an idle process takes to answer.
    private static let moment = Duration.milliseconds(300)

    private func watchForPatience() {
        busyTimer?.invalidate()
        busyTimer = loop.callBack(at: loop.now + Self.moment) { [weak self] _, _ in self?.waits() }
    }

    private func refuse(_ reason: String) {
        received(.error, Array("\(reason)\n".utf8))
        received(.ended, Array("\(lastEntry) failed".utf8))
    }

    /// Asks the process to end the entry that runs or waits.
    func interrupt() { _ = remote.request(Attach.Request.interrupt.rawValue, []) }
}
