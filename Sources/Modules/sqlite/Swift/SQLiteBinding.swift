internal import CSQLite
internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The native half of `runloop.sqlite`. Lua writes jobs and reads their replies; a pool of threads carries them out.
enum SQLiteBinding {
    static let battery = Battery(
        "runloop.sqlite", kinds: [kind],
        functions: Library([
            .native("codec", csqlite_open_codec),
            .init("load") { Call($0).answer(csqlite_load().map { String(cString: $0) }) },
            // name(text): the number of a wait's name.
            .init("name") { Call.answer($0) { call in call.string(1).flatMap { WaitName.number(of: $0) } ?? 0 } },
            // pool(size, opening, calls that may wait for a connection)
            .init("pool", constructs: kind) { thread in
                let call = Call(thread)
                guard let opening = call.bytes(3),
                    let pool = SQLitePool(
                        call.luaHost, size: Int32(min(max(1, call.integer(2) ?? 1), 1000)), opening: opening,
                        mostWaiting: call.integer(4) ?? 10_000)
                else { return call.raiseOutOfMemory() }
                return call.answerConstructed(pool)
            },
        ]))

    private static let kind: Kind = Kind("sqlite pool", methods: methods, collect: Kind.drop)

    private static func job(_ call: Call, _ index: Int32) throws(Misuse) -> OpaquePointer {
        if let job = csqlite_take_request(call.stack.thread, index) { return job }
        throw call.stack.isMissing(index) ? .noMemory : call.wrong(index, "a job")
    }

    private static let methods: Library = Library(
        of: kind,
        [
            // run(name, job, connection, seconds, label): the task waits until the job is done. Returns the job; the
            // script has to read its reply before the task waits again. `label`: the call's label in recordings; 0 for
            // none.
            .init("run") {
                receiver($0, SQLitePool.self).run { (pool, call) throws(Misuse) in
                    let job = try job(call, 3)
                    let name = call.integer(2).flatMap { WaitName.of(number: $0) } ?? "a call of runloop.sqlite"
                    return pool.run(
                        call, name, job, call.integer(4) ?? 0, call.number(5) ?? .infinity,
                        label: call.integer(6).flatMap { UInt32(exactly: $0) } ?? 0)
                }
            },
            // send(job, connection): carries out a job for which no task waits.
            .init("send") {
                receiver($0, SQLitePool.self).run { (pool, call) throws(Misuse) in
                    pool.send(try job(call, 2), call.integer(3) ?? 0)
                    return 0
                }
            },
            .init("give") {
                receiver($0, SQLitePool.self).run { pool, call in
                    pool.give(call.integer(2) ?? 0)
                    return 0
                }
            },
            .init("drop") {
                receiver($0, SQLitePool.self).run { pool, call in
                    pool.drop(call.integer(2) ?? 0)
                    return 0
                }
            },
            .init("interrupt") { receiver($0, SQLitePool.self).act { csqlite_pool_interrupt($0.native) } },
            // close(job): waits until all connections are closed that no task has taken.
            .init("close") {
                receiver($0, SQLitePool.self).run { (pool, call) throws(Misuse) in
                    pool.close(call, try job(call, 2))
                }
            },
            // numbers() -> connections, in use, waiting, cancelled
            .init("numbers") {
                receiver($0, SQLitePool.self).run { pool, call in
                    let numbers = csqlite_pool_numbers(pool.native)
                    for number in [numbers.connections, numbers.in_use, numbers.waiting, numbers.cancelled] {
                        call.stack.push(Int(number))
                    }
                    return call.values(4)
                }
            },
            // longest() -> the coroutine whose statement runs for longest, and the seconds; nothing if none runs
            .init("longest") {
                receiver($0, SQLitePool.self).run { pool, call in
                    var seconds = 0.0
                    guard let fiber = Fiber(context: csqlite_pool_longest(pool.native, &seconds)),
                        fiber.stack.reserve(4), call.stack.reserve(4)
                    else { return 0 }
                    fiber.stack.pushThread()
                    fiber.stack.move(1, to: call.stack)
                    call.stack.push(seconds)
                    return call.values(2)
                }
            },
            // text(coroutine) -> the name of the call in which it waits, its text, and the seconds
            .init("text") { receiver($0, SQLitePool.self).run { pool, call in pool.text(call) } },
        ])
}
