internal import Lua
internal import RunLoops

/// `rl.mutex`, its method `lock`, and the place objects that `lock` returns.
enum MutexBinding {
    static let methods: Library = Library(
        of: Kinds.mutex,
        [
            .init("lock", constructs: Kinds.held) { Call.run($0, lock) },
            .init("__tostring") { text(Call($0)) },
        ])
    static let heldMethods: Library = Library(
        of: Kinds.held,
        [
            .init("unlock") { unlock(Call($0)) },
            .init("__close") { unlock(Call($0)) },
            .init("__tostring") { heldText(Call($0)) },
        ])
    private static let functions = Library("rl.", [.init("mutex", constructs: Kinds.mutex) { Call.run($0, make) }])

    /// () -> the function `rl.mutex`. The kinds are defined here, because most scripts do not use them.
    static func open(_ call: Call) -> Int32 {
        guard call.define(Kinds.held), call.define(Kinds.mutex), call.push(functions),
            call.stack.replaceTop(withField: "mutex")
        else { return call.raiseValue() }
        return call.values(1)
    }

    private enum Places: Parameter {
        static let expected = "the number of places, an integer from 1 on"
        static func read(_ stack: Stack, _ index: Int32) -> Int? { stack.integer(index).flatMap { $0 < 1 ? nil : $0 } }
    }

    private static func make(_ call: Call) throws(Misuse) -> Int32 {
        let places = try call.optional(2, Places.self)
        call.receiver.payload(as: Mutex.self).initialize(to: Mutex(places: places))
        call.receiver.site = call.site
        return call.answerArgument(1)
    }

    /// (new place, mutex, timeout) -> the place, or nil, "timed out".
    private static func lock(_ call: Call) throws(Misuse) -> Int32 {
        let limit = try call.optional(3, WaitBinding.Limit.self)
        let (stack, box) = (call.stack, call.receiver)
        guard let mutexBox = stack.box(2, Kinds.mutex) else { throw Misuse("a mutex is expected as self") }
        let mutex = mutexBox.payload(as: Mutex.self)
        let held = box.payload(as: Held.self)
        box.site = call.site
        stack.pushCopy(of: 2)
        stack.setUserValue(Held.Value.mutex.number, of: 1)
        let result = call.withHost { host -> Result<Int32, Misuse> in
            if let fiber = host.current {
                held.pointee.fiber = fiber.number
                held.pointee.owner = fiber.subjectSite
                held.pointee.isTasks = fiber.runs(Kinds.task)
            }
            if mutex.pointee.take() {
                Held.take(stack, place: 1, mutex: 2)
                return .success(call.answerArgument(1))
            }
            if mutex.pointee.isExclusive, let own = host.place(of: stack, mutex: 2, ifHeldBy: held.pointee.fiber) {
                return .failure(Misuse("this task holds it already: it was locked at \(own); unlock it first"))
            }
            switch call.beginWait(in: "mutex:lock", host, cancel: Waiter.cancel) {
            case .refused(let answer): return .success(answer)
            case .begun(let fiber):
                fiber.objectSite = mutexBox.site
                Waiter.use(fiber, host) { waiter in
                    waiter.wait(in: Mutex.queue(mutex), .mutex)
                    if let limit { waiter.sleep(until: host.loop.now.nanoseconds + limit, host) }
                }
                return .success(call.yield())
            }
        }
        return try result.get()
    }

    /// (place): frees the place, or hands it to the task that has waited longest.
    private static func unlock(_ call: Call) -> Int32 {
        let stack = call.stack
        guard call.receiver.payload(as: Held.self).pointee.state == .held else { return call.nothing() }
        stack.pushUserValue(Held.Value.mutex.number, of: 1)
        let index = stack.top
        guard let mutex = stack.box(index, Kinds.mutex)?.payload(as: Mutex.self) else { return call.nothing() }
        Held.release(stack, place: 1, mutex: index)
        if let next = Mutex.queue(mutex).pointee.first {
            next.pointee.waiter._withUnsafeGuaranteedRef { $0.takePlace() }
        } else {
            mutex.pointee.giveBack()
        }
        return call.nothing()
    }

    private static func text(_ call: Call) -> Int32 {
        let mutex = call.receiver.payload(as: Mutex.self).pointee
        let taken = mutex.places - mutex.free
        let state = mutex.isExclusive ? (taken > 0 ? "locked" : "free") : "\(taken) of \(mutex.places) places taken"
        let details = [state] + (mutex.waiters.first == nil ? [] : ["\(mutex.waiters.count) waiting"])
        return call.answer(String("mutex", details, site: call.luaHost.site(call.receiver.site)))
    }

    private static func heldText(_ call: Call) -> Int32 {
        let state = call.receiver.payload(as: Held.self).pointee.state == .held ? "held" : "released"
        let place = call.luaHost.site(call.receiver.site).map { ["locked at \($0)"] } ?? []
        return call.answer(String("held place of a mutex", [state] + place))
    }
}

extension LuaHost {
    /// Returns the line of the script at which a fiber has locked the mutex at an index; nil if that fiber does not
    /// hold the mutex. For a mutex with one place.
    fileprivate func place(of stack: Stack, mutex: Int32, ifHeldBy fiber: Int) -> String? {
        stack.pushUserValue(Mutex.Value.first.number, of: mutex)
        defer { stack.pop() }
        guard let box = stack.box(-1, Kinds.held), box.payload(as: Held.self).pointee.fiber == fiber else { return nil }
        return site(box.site) ?? "?"
    }

    /// Returns who holds the places of the mutex at an index of a stack: "locked at app.lua:9 by task made at
    /// app.lua:3".
    func holders(of stack: Stack, mutex: Int32) -> String? {
        guard stack.reserve(8) else { return nil }
        var texts: [String] = []
        var others = 0
        let top = stack.top
        defer { stack.top = top }
        stack.pushUserValue(Mutex.Value.first.number, of: mutex)
        while let box = stack.box(-1, Kinds.held) {
            if texts.count < Self.mostHolders { texts.append(holder(box)) } else { others += 1 }
            stack.pushUserValue(Held.Value.next.number, of: -1)
            stack.remove(at: -2)
        }
        guard !texts.isEmpty else { return nil }
        return "locked " + texts.joined(separator: ", ") + (others > 0 ? ", and \(others) more" : "")
    }

    /// A description names at most this number of holders.
    private static let mostHolders = 4

    private func holder(_ box: Box) -> String {
        let held = box.payload(as: Held.self).pointee
        let place = site(box.site).map { "at \($0) " } ?? ""
        if let fiber = fiber(numbered: held.fiber) { return "\(place)by \(title(of: fiber))" }
        let origin = site(held.owner).map { " made at \($0)" } ?? ""
        return "\(place)by \(held.isTasks ? "task" : "a callback")\(origin), which has ended"
    }
}
