internal import CPostgres
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The calls of libpq that block, to connect and to cancel: `runloop.postgres` makes them on threads.
enum PostgresBinding {
    static let battery = Battery(
        "runloop.postgres", kinds: [PostgresWatch.kind],
        functions: Library([
            .native("open", cpostgres_open),
            .init("load") { Call($0).answer(cpostgres_load().map { String(cString: $0) }) },
            .init("watch", constructs: PostgresWatch.kind) {
                Call.run($0) { call throws(Misuse) in try PostgresWatch.make(call) }
            },
            // note_resting(on): notes whether a thread waits for a fake. Such a wait does not stop virtual time.
            .init("note_resting") { thread in
                WorkPool.noteAwaited(Call(thread).boolean(1) ? -1 : 1)
                return 0
            },
            .init("connect", saidAs: "postgres.open") { Call.run($0) { call throws(Misuse) in try connect(call) } },
            .init("cancel", saidAs: "db:close") { Call.run($0) { call throws(Misuse) in try cancel(call) } },
        ]))

    private static let connecting = WorkPool("postgres", limit: 4)
    /// A database uses at most two of them at once.
    private static let cancelling = WorkPool("postgres cancel", limit: 16)

    /// A connection that a thread works for.
    private struct Held: @unchecked Sendable {
        // Sendable, since the functions that take it may be called on any thread.
        let pointer: OpaquePointer

        init(_ call: Call) throws(Misuse) {
            guard let held = cpostgres_hold(call.thread, 1) else { throw Misuse("a connection is expected") }
            pointer = held
        }
    }

    /// connect(connection): the task waits until the connection is made, or has failed.
    private static func connect(_ call: Call) throws(Misuse) -> Int32 {
        let held = try Held(call)
        return try call.wait(in: WaitName.of("postgres.open") ?? "a call of runloop.postgres") {
            answer throws(SystemError) in
            try connecting.run {
                cpostgres_connect(held.pointer)
                cpostgres_release(held.pointer)
                answer(.success(ValueProgram()))
            }
        }
    }

    /// cancel(connection): the task waits until the server has the request.
    private static func cancel(_ call: Call) throws(Misuse) -> Int32 {
        let held = try Held(call)
        return try call.wait(in: WaitName.of("db:close") ?? "a call of runloop.postgres") {
            answer throws(SystemError) in
            try cancelling.run {
                cpostgres_cancel(held.pointer)
                cpostgres_release(held.pointer)
                answer(.success(ValueProgram()))
            }
        }
    }
}
