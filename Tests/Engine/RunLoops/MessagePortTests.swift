import class Foundation.NSLock
import struct Foundation.UUID
import Glibc
import Linux
import RunLoops
import TestSupport
import Testing

@Suite("Message ports", .timed)
struct MessagePortTests {
    typealias MessagePort = RunLoop.MessagePort
    typealias RemotePort = RunLoop.RemotePort

    private let loop = RunLoop(poller: EpollPoller())
    /// A name that no other test uses.
    private let name = "org.example.test-\(UUID().uuidString)"

    /// Makes a port in the default mode that answers with the bytes of the message in reverse order.
    private func backwards() throws -> MessagePort {
        let port = try MessagePort(name: name) { _, message in message.answer(message.data.reversed()) }
        loop.add(port)
        return port
    }

    @Test("a request gets its answer with any bytes in both")
    func request() throws {
        let port = try backwards()
        let remote = try RemotePort(name: name, on: loop)
        for data in [[], [0], Array(0...255), [UInt8](repeating: 7, count: 300_000)] {
            #expect(remote.request(-5, data, runningIn: .default) == .success(data.reversed()))
        }
        #expect(remote.process == getpid())
        port.invalidate()
    }

    @Test("16 MB can be sent and answered, and one byte more is refused before it is sent")
    func limit() throws {
        let port = try MessagePort(name: name) { _, message in message.answer(message.data) }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        let longest = [UInt8](repeating: 1, count: MessagePort.longestMessage)
        for _ in 0..<2 { #expect(try remote.request(1, longest, runningIn: .default).get().count == longest.count) }
        let refused = remote.request(1, longest + [1], runningIn: .default)
        #expect(
            refused == .failure(.transport("the message has 16777217 bytes; 16777216 can be sent")))
        #expect(remote.isValid)
    }

    @Test("an answer that is too long fails and the connection stays usable")
    func longAnswer() throws {
        let port = try MessagePort(name: name) { _, message in
            message.answer([UInt8](repeating: 0, count: message.id == 1 ? MessagePort.longestMessage + 1 : 1))
        }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        let failure = remote.request(1, [], runningIn: .default)
        #expect(failure == .failure(.transport("the answer has 16777217 bytes; 16777216 can be sent")))
        #expect(remote.request(2, [], runningIn: .default) == .success([0]))
    }

    @Test("a name belongs to one live port until that is invalidated or freed")
    func names() throws {
        var port: MessagePort? = try MessagePort(name: name) { _, _ in }
        let taken = SystemError(
            "lock", name, errno: EADDRINUSE, reason: "a live process has the name \"\(name)\"")
        #expect(throws: taken) { try MessagePort(name: name) { _, _ in } }
        port?.invalidate()
        port = try MessagePort(name: name) { _, _ in }
        try port?.setName(name + "2")
        #expect(port?.name == name + "2")
        let other = try MessagePort(name: name) { _, _ in }
        #expect(throws: taken) { try port?.setName(name) }
        #expect(port?.name == name + "2", "a refused name changes nothing")
        port = nil
        #expect(throws: SystemError.self) { try RemotePort(name: name + "2", on: loop) }
        #expect(other.isValid)
    }

    @Test("a port receives messages as soon as it has a name")
    func nameLater() throws {
        let port = MessagePort { _, message in message.answer([1]) }
        loop.add(port)
        #expect(throws: SystemError.self) { try RemotePort(name: name, on: loop) }
        try port.setName(name)
        #expect(try RemotePort(name: name, on: loop).request(0, [], runningIn: .default) == .success([1]))
    }

    @Test(
        "names that are impossible for files and names of lock files are refused",
        arguments: ["", ".x", "..", "a/b", "a\0b", String(repeating: "x", count: 101)])
    func impossibleNames(name: String) {
        let refusal = #expect(throws: SystemError.self) { try MessagePort(name: name) { _, _ in } }
        #expect(refusal?.errno == EINVAL)
        let missing = #expect(throws: SystemError.self) { try RemotePort(name: name, on: loop) }
        #expect(missing?.errno == EINVAL)
    }

    @Test("a name of a hundred bytes works although it is too long for a socket's address")
    func longName() throws {
        let name = String(name + String(repeating: "x", count: 100)).prefix(100)
        let port = try MessagePort(name: String(name)) { _, message in message.answer() }
        loop.add(port)
        #expect(try RemotePort(name: String(name), on: loop).request(0, [], runningIn: .default) == .success([]))
    }

    @Test("exactly one of many threads gets a name, each time")
    func race() async {
        for round in 0..<100 {
            let name = "\(name)-\(round)"
            let winners = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        guard let port = try? MessagePort(name: name, callback: { _, _ in }) else { return false }
                        // Retained until all threads have tried.
                        Kept.ports.keep(port)
                        return true
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(winners == 1)
            Kept.ports.dropAll()
        }
    }

    private final class Kept: @unchecked Sendable {
        // Sendable: guarded by the lock.
        static let ports = Kept()
        private let lock = NSLock()
        private var list: [MessagePort] = []
        func keep(_ port: MessagePort) { lock.withLock { list.append(port) } }
        func dropAll() { lock.withLock { list = [] } }
    }

    @Test("messages of one sender arrive in order, one for each turn, and are acknowledged")
    func order() throws {
        var got: [Int32] = []
        let port = try MessagePort(name: name) { _, message in
            #expect(!message.wantsReply)
            got.append(message.id)
            message.answer()
        }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        for i in 0..<200 as Range<Int32> { #expect(remote.send(i, [UInt8(i)]).result == .success([])) }
        #expect(remote.unacknowledged == 200)
        let flush = remote.flush()
        while flush.result == nil { loop.run(in: .default, returnAfterSource: true) }
        #expect(flush.result == .success([]) && remote.unacknowledged == 0)
        #expect(got == Array(0..<200))
    }

    @Test("a receiver that does not run takes 256 messages, and the next one waits until its timeout")
    func backPressure() throws {
        var got: [Int32] = []
        let port = try MessagePort(name: name) { _, message in
            got.append(message.id)
            message.answer()
        }
        let remote = try RemotePort(name: name, on: loop)
        for i in 0..<256 as Range<Int32> { #expect(remote.send(i, []).result == .success([])) }
        #expect(remote.send(1000, [], timeout: .zero).result == .failure(.sendTimedOut))
        #expect(
            remote.request(1001, [], sendTimeout: .milliseconds(5), runningIn: "wait") == .failure(.sendTimedOut))
        #expect(remote.unacknowledged == 256)
        let waiting = remote.send(256, [])
        #expect(waiting.result == nil)
        loop.add(port)
        let flush = remote.flush()
        while flush.result == nil { loop.run(in: .default, returnAfterSource: true) }
        #expect(waiting.result == .success([]) && got == Array(0...256))
    }

    @Test("an answer that comes too late is ignored and the next request gets its own")
    func lateAnswer() throws {
        var held: [MessagePort.Message] = []
        let port = try MessagePort(name: name) { _, message in
            guard message.id == 2 else { return held.append(message) }
            for late in held { late.answer([1]) }
            message.answer([2])
        }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        for _ in 0..<3 {
            let result = remote.request(1, [], replyTimeout: .milliseconds(5), runningIn: .default)
            #expect(result == .failure(.replyTimedOut))
        }
        #expect(remote.request(2, [], runningIn: .default) == .success([2]))
        #expect(remote.isValid)
    }

    @Test("a request that waits in a mode serves the items of that mode only")
    func replyMode() throws {
        var journal: [String] = []
        let port = try MessagePort(name: name) { _, message in
            journal.append("asked")
            message.answer()
        }
        loop.add(port, to: "talk")
        let here = RunLoop.Source(name: "here", perform: { _ in journal.append("here") })
        let elsewhere = RunLoop.Source(name: "elsewhere", perform: { _ in journal.append("elsewhere") })
        loop.add(here, to: "talk")
        loop.add(elsewhere)
        here.signal()
        elsewhere.signal()
        let remote = try RemotePort(name: name, on: loop)
        #expect(remote.request(1, [], runningIn: "talk") == .success([]))
        #expect(journal == ["here", "asked"])
    }

    @Test("a nested run that brings the answer ends the run that waits for it")
    func nestedAnswer() throws {
        let port = try MessagePort(name: name) { _, message in message.answer([message.data[0] + 1]) }
        let remote = try RemotePort(name: name, on: loop)
        var inner: Result<[UInt8], RemotePort.Failure>?
        // Only the nested run can answer the outer request: before, the port is in no mode.
        let source = RunLoop.Source(perform: { [loop] source in
            source.invalidate()
            loop.add(port, to: "talk")
            inner = remote.request(2, [20], runningIn: "talk")
        })
        // Keeps the mode from becoming empty, which would end the run.
        let keeper = RunLoop.Port(name: "keeper")
        loop.add(keeper, to: "talk")
        loop.add(source, to: "talk")
        source.signal()
        let outer = remote.request(1, [10], replyTimeout: .seconds(20), runningIn: "talk")
        #expect(inner == .success([21]) && outer == .success([11]))
    }

    @Test("a message that is dropped without an answer fails and the sender gets the reason")
    func failures() throws {
        let port = try MessagePort(name: name) { _, message in
            if message.id == 1 { message.fail("no such thing") }
        }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        #expect(remote.request(1, [], runningIn: .default) == .failure(.transport("no such thing")))
        #expect(remote.request(2, [], runningIn: .default) == .failure(.transport("the message was not answered")))
    }

    @Test("invalidating frees the name, calls its callback once, and ends waiting requests")
    func invalidation() throws {
        var journal: [String] = []
        let port = try MessagePort(name: name) { port, _ in port.invalidate() }
        loop.add(port)
        port.invalidated = { [name] port in
            journal.append((try? MessagePort(name: name) { _, _ in }) == nil ? "taken" : "free")
        }
        let remote = try RemotePort(name: name, on: loop)
        remote.invalidated = { _ in journal.append("remote") }
        #expect(remote.request(1, [], runningIn: .default) == .failure(.becameInvalid))
        #expect(remote.request(1, [], runningIn: .default) == .failure(.invalid))
        port.invalidate()
        remote.invalidate()
        #expect(!port.isValid && !remote.isValid)
        #expect(journal == ["free", "remote"])
        port.invalidated = { _ in journal.append("late") }
        remote.invalidated = { _ in journal.append("late") }
        #expect(journal == ["free", "remote", "late", "late"])
        #expect(loop.run(in: .default, for: .zero) == .finished, "something is left in the mode")
    }

    @Test("messages that were not handled when the other end closed are counted")
    func lost() throws {
        let port = try MessagePort(name: name) { port, message in
            message.answer()
            if message.id == 2 { port.invalidate() }
        }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        var warnings: [String] = []
        remote.warned = { warnings.append($1) }
        for i in 0..<10 as Range<Int32> { _ = remote.send(i, []) }
        let flush = remote.flush()
        while flush.result == nil { loop.run(in: .default, returnAfterSource: true) }
        #expect(flush.result == .failure(.becameInvalid))
        // The last acknowledgements may have been lost, but no unhandled message was acknowledged.
        #expect(remote.unacknowledged >= 7)
        #expect(warnings.count == 1 && warnings[0].contains("became invalid; \(remote.unacknowledged) messages"))
    }

    @Test("a port in no mode keeps its messages, and a port keeps its modes alive")
    func modes() throws {
        let port = try backwards()
        let remote = try RemotePort(name: name, on: loop)
        let request = remote.request(1, [1, 2])
        loop.remove(port)
        #expect(loop.run(in: .default, for: .milliseconds(20)) == .timedOut)
        #expect(request.result == nil)
        loop.add(port, to: "other")
        loop.add(port)
        while request.result == nil { loop.run(in: .default, returnAfterSource: true) }
        #expect(request.result == .success([2, 1]))
        #expect(loop.run(in: .default, for: .milliseconds(1)) == .timedOut)
        #expect(loop.run(in: "other", for: .milliseconds(1)) == .timedOut)
        port.invalidate()
        #expect(loop.run(in: .default) == .finished && loop.run(in: "other") == .finished)
    }

    @Test("a run that returns after a source waits for the message, not for the connection")
    func connectionsAreNoEvents() throws {
        var messages = 0
        let port = try MessagePort(name: name) { _, message in
            messages += 1
            message.answer()
        }
        loop.add(port, to: "serve")
        let remote = try RemotePort(name: name, on: loop)
        #expect(loop.run(in: "serve", for: .milliseconds(20), returnAfterSource: true) == .timedOut)
        let request = remote.request(1, [])
        #expect(loop.run(in: "serve", for: .seconds(20), returnAfterSource: true) == .handledSource)
        #expect(messages == 1 && request.result == nil)
        #expect(loop.items(in: "serve").count == 1, "items that serve the port are not listed")
    }

    @Test("senders take turns")
    func turns() throws {
        var order: [Int32] = []
        let port = try MessagePort(name: name) { _, message in
            order.append(message.id)
            message.answer()
        }
        let remotes = try (0..<2).map { _ in try RemotePort(name: name, on: loop) }
        for (i, remote) in remotes.enumerated() {
            for _ in 0..<100 { _ = remote.send(Int32(i), []) }
        }
        loop.add(port)
        while order.count < 200 { loop.run(in: .default, returnAfterSource: true) }
        let firstOfSecond = try #require(order.firstIndex(of: 1))
        let lastOfFirst = try #require(order.lastIndex(of: 0))
        #expect(
            firstOfSecond < 100 && lastOfFirst > 100 - 100 / 4,
            "one sender was served completely before the other: \(order)")
    }

    @Test("an unreferenced remote port closes its connection after the answers that it waits for")
    func ownership() throws {
        var answered = false
        let port = try backwards()
        weak var weakRemote: RemotePort?
        do {
            let remote = try RemotePort(name: name, on: loop)
            weakRemote = remote
            remote.request(1, [1]).completion = { _ in answered = true }
        }
        #expect(weakRemote != nil)
        while !answered { loop.run(in: .default, returnAfterSource: true) }
        #expect(weakRemote == nil)
        port.invalidate()
    }

    @Test("a message that is too long changes nothing") func aMessageThatIsTooLongChangesNothing() throws {
        let loop = RunLoop(poller: EpollPoller())
        let name = "long-\(UInt64.random(in: 0 ... .max))"
        let port = try MessagePort(name: name) { _, message in message.answer() }
        loop.add(port)
        let remote = try RemotePort(name: name, on: loop)
        let sent = remote.send(1, [UInt8](repeating: 0, count: MessagePort.longestMessage + 1))
        #expect(sent.result != nil)
        #expect(remote.unacknowledged == 0)
        #expect(throws: Never.self) { try remote.request(2, [1], runningIn: .default).get() }
    }

    /// Ten times as many waiting messages take ten times as long to cancel or to send.
    @Test("many messages may wait", .soak(seconds: 20)) func manyMessagesMayWait() throws {
        for seed in Soak.seeds { try sendMany(areSent: seed % 2 == 0) }
    }

    private func sendMany(areSent: Bool) throws {
        func cost(_ count: Int) throws -> Double {
            let loop = RunLoop(poller: EpollPoller())
            let name = "many-\(UInt64.random(in: 0 ... .max))"
            let port = try MessagePort(name: name) { _, message in message.answer() }
            let remote = try RemotePort(name: name, on: loop)
            let start = threadTime()
            let conversations = (0..<count).map { remote.send(Int32($0), []) }
            if areSent {
                loop.add(port)
                #expect(throws: Never.self) { try remote.request(0, [], runningIn: .default).get() }
                #expect(conversations.allSatisfy { $0.result != nil })
            } else {
                for conversation in conversations { conversation.cancel() }
            }
            #expect(areSent ? remote.unacknowledged == 0 : remote.unacknowledged == MessagePort.window)
            return threadTime() - start
        }
        let ratio = try (0..<2).map { _ in try cost(5_000) / cost(500) }.min() ?? .infinity
        #expect(ratio < 40, "\(ratio)")
    }
}
