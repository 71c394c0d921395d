internal import CSQLite
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The native half of `runloop.sqlite`: a connection with a thread of its own. Lua writes requests and reads replies,
/// which are blocks of bytes; Swift carries them to the thread and back.
enum SQLiteBinding {
    /// A connection of SQLite, whose thread carries out one request after the other.
    final class Connection: Sendable {
        typealias Answer = @Sendable (Result<ValueProgram, SystemError>) -> Void

        private struct Job {
            let number: UInt64
            let request: [UInt8]
            let answer: Answer
        }

        private struct State {
            var jobs: [Job] = []
            var last: UInt64 = 0
            var isClosing = false
        }

        /// Only the thread uses SQLite's connection; any thread may set the number of the job that is cancelled.
        private struct Native: @unchecked Sendable { let pointer: OpaquePointer }

        private let native: Native
        private let changed = Condition()
        private let state = Lock(State())

        init() throws(SystemError) {
            guard let native = csqlite_make() else { throw SystemError("malloc", errno: ENOMEM) }
            self.native = Native(pointer: native)
        }

        /// Starts the thread, which keeps the connection until it is closed.
        func start() throws(SystemError) {
            try Thread("sqlite", stackSize: 512 << 10) { [native, changed, state] in
                Self.work(native, changed, state)
            }
        }

        private static func work(_ native: Native, _ changed: Condition, _ state: Lock<State>) {
            while true {
                changed.lock()
                while state.withLock({ $0.jobs.isEmpty && !$0.isClosing }) { changed.wait() }
                let job = state.withLock { $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }
                changed.unlock()
                guard let job else { break }
                job.answer(reply(native.pointer, job))
            }
            csqlite_free(native.pointer)
        }

        private static func reply(_ native: OpaquePointer, _ job: Job) -> Result<ValueProgram, SystemError> {
            var length = 0
            let bytes = job.request.withUnsafeBytes { bytes in
                csqlite_run(
                    native, job.number, bytes.bindMemory(to: CChar.self).baseAddress, bytes.count, &length)
            }
            guard let bytes else { return .failure(SystemError("malloc", errno: ENOMEM)) }
            defer { free(bytes) }
            var program = ValueProgram()
            program.append(bytes: Array(UnsafeRawBufferPointer(start: bytes, count: length)))
            return .success(program)
        }

        /// Queues a request. `answer` is called once, on the connection's thread.
        func run(_ request: [UInt8], _ answer: @escaping Answer) throws(SystemError) {
            changed.lock()
            defer { changed.unlock() }
            let isOpen = state.withLock { state in
                guard !state.isClosing else { return false }
                state.last += 1
                state.jobs.append(Job(number: state.last, request: request, answer: answer))
                return true
            }
            guard isOpen else { throw SystemError("sqlite", errno: ENOTCONN, reason: "the connection is closed") }
            changed.signal()
        }

        /// Ends the last request early.
        func cancel() {
            // After `close`, the thread may have freed the connection.
            if let last = state.withLock({ $0.isClosing ? nil : $0.last }) { csqlite_cancel(native.pointer, last) }
        }

        /// Lets the thread end after the requests that wait.
        func close() {
            changed.withLock {
                state.withLock { $0.isClosing = true }
                changed.signal()
            }
        }

        deinit { close() }
    }

    static let battery = Battery(
        "runloop.sqlite", kinds: [kind],
        functions: Library([
            .native("codec", csqlite_open_codec),
            .init("load") { Call($0).answer(csqlite_load().map { String(cString: $0) }) },
            .init("connection", constructs: kind) { thread in
                let call = Call(thread)
                return call.attempt { () throws(SystemError) in
                    let connection = try Connection()
                    try connection.start()
                    return call.answerConstructed(connection)
                }
            },
        ]))

    private static let kind: Kind = Kind("sqlite connection", methods: methods, collect: Kind.drop)

    private static let methods: Library = Library(
        of: kind,
        [
            // run(request, name): the task waits for the reply; messages about its wait show `name`.
            .init("run") {
                receiver($0, Connection.self).run { (own, call) throws(Misuse) in
                    guard let request = call.bytes(2).map({ Array($0) }) else { throw Misuse("a request is expected") }
                    let name = call.string(3).flatMap { WaitName.of($0) } ?? "a call of runloop.sqlite"
                    return try call.wait(in: name) { answer throws(SystemError) in try own.run(request, answer) }
                }
            },
            .init("cancel") { receiver($0, Connection.self).act { $0.cancel() } },
            .init("close") { receiver($0, Connection.self).act { $0.close() } },
        ])
}
