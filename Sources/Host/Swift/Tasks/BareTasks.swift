package import Lua
internal import RunLoops

/// Tasks without a Lua object. An HTTP server starts one for each request. Messages and recordings show them as tasks
/// with the given creation site. Such a task can be cancelled by its number.
package final class BareTasks: HostPart {
    private var waiting: [Int: Waiting] = [:]
    private struct Waiting {
        let fiber: Fiber
        let record: UInt32
        let label: UInt32
    }
    /// The task that runs and has not waited yet.
    private var running: (fiber: Int, record: UInt32) = (0, 0)
    private lazy var owner = Owner(self)
    /// The result of the task that ended last.
    private var result = 0

    override package func reset() { waiting = [:] }

    /// For modules written in Lua.
    package static let functions: [Library.Entry] = [
        .init("site") { Call($0).answer(Int(Call($0).site)) },
        .init("start") { Call.run($0) { call throws(Misuse) in try start(call) } },
        .init("cancel") { thread in
            let call = Call(thread)
            let host = call.luaHost
            guard let number = call.integer(1), let fiber = host.part(BareTasks.self).waiting[number]?.fiber else {
                return call.answer(false)
            }
            return call.answer(host.cancel(fiber, from: call.stack))
        },
        .init("belongs") { belongs(Call($0)) },
        .init("is_ending") { Call($0).answer(Call($0).luaHost.isEnding) },
    ]

    /// start(site, label, fn, …): calls the function in a task of its own. From now on recordings show the activity
    /// under a label that the function `label` has returned. The activity ends when the function returns an integer,
    /// its result; integers from 499 on mean a failure. A function that returns no integer has called `ends` itself.
    ///
    /// Returns the beginning in seconds of the loop's clock. If the task waits, also returns its number for `cancel`,
    /// and the number for `ends`.
    private static func start(_ call: Call) throws(Misuse) -> Int32 {
        let stack = call.stack
        let host = call.luaHost
        let count = call.count - 2
        guard let site = stack.integer(1), let label = stack.integer(2), count > 0, stack.type(3) == .function else {
            throw Misuse("a site, a label and a function are expected")
        }
        guard let fiber = host.takeFiber() else { throw .noMemory }
        guard stack.reserve(4), fiber.stack.reserve(count + 4) else {
            host.recycle(fiber)
            throw .noMemory
        }
        let part = host.part(BareTasks.self)
        let loop = host.loop
        let number = fiber.number
        let subject = UInt32(truncatingIfNeeded: label)
        fiber.owner = part.owner
        fiber.runs(Kinds.task, site: UInt32(truncatingIfNeeded: site))
        stack.move(count, to: fiber.stack)
        let beginning = loop.now.nanoseconds
        let record = loop.isRecording ? loop.noteBeginning(subject) : 0
        let outer = part.running
        part.running = (number, record)
        host.resume(fiber, arguments: count - 1, from: stack)
        part.running = outer
        stack.push(Time.seconds(beginning))
        guard fiber.state == .waiting, fiber.number == number else {
            part.noteEnd(record, subject)
            return 1
        }
        part.waiting[number] = Waiting(fiber: fiber, record: record, label: subject)
        stack.push(number)
        stack.push(Int(subject) << 32 | Int(record))
        return 3
    }

    /// belongs(label): recordings count the calling task in the group of this label, such as the requests of a route.
    private static func belongs(_ call: Call) -> Int32 {
        let host = call.luaHost
        guard host.loop.isRecording, let fiber = host.current, let label = call.stack.integer(1) else {
            return call.nothing()
        }
        let part = host.part(BareTasks.self)
        let record =
            part.running.fiber == fiber.number ? part.running.record : part.waiting[fiber.number]?.record ?? 0
        host.loop.noteGroup(of: record, UInt32(truncatingIfNeeded: label))
        return call.nothing()
    }

    private func noteEnd(_ record: UInt32, _ label: UInt32) {
        host.loop.noteEnd(record, label, result: result, failed: result >= 499)
    }

    private final class Owner: FiberOwner {
        // The host part owns this object.
        private unowned(unsafe) let part: BareTasks
        init(_ part: BareTasks) { self.part = part }

        override func ended(_ fiber: Fiber, results: Int32) {
            part.result = results > 0 ? fiber.stack.integer(-1) ?? 0 : 0
            if !part.waiting.isEmpty, let waiting = part.waiting.removeValue(forKey: fiber.number), part.result > 0 {
                part.noteEnd(waiting.record, waiting.label)
            }
            if results < 0, !part.host.wasCancelled(fiber) { part.host.uncaught(fiber) }
        }
    }
}
