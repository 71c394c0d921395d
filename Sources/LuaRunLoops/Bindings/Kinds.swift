internal import CLuaSupport
internal import Linux
package import Lua
internal import RunLoops

/// The kinds of userdata that scripts see.
package enum Kinds {
    static let timer: Kind = Kind(
        0, "timer", size: MemoryLayout<cl_box>.size + MemoryLayout<RunLoop.TimerNode>.size, userValues: 2,
        methods: TimerBinding.methods, describe: { TimerBinding.describe(Call($0)) })
    static let source: Kind = Kind(
        1, "source", userValues: 4, methods: SourceBinding.methods, describe: { SourceBinding.describe(Call($0)) },
        collect: collect)
    static let fdPort: Kind = Kind(
        2, "fd_port", userValues: 2, methods: FDPortBinding.methods, describe: { FDPortBinding.describe(Call($0)) },
        collect: collect)
    static let observer: Kind = Kind(
        3, "observer", methods: ObserverBinding.methods, describe: { ObserverBinding.describe(Call($0)) },
        collect: collect)
    static let loop: Kind = Kind(
        4, "loop", userValues: 0, methods: LoopBinding.methods, describe: { LoopBinding.describe(Call($0)) },
        collect: collect)
    static let request: Kind = Kind(
        5, "request", size: MemoryLayout<cl_box>.size + MemoryLayout<UInt64>.size,
        methods: RequestBinding.methods, describe: { RequestBinding.describe(Call($0)) })
    static let task: Kind = Kind(
        6, "task", methods: TaskBinding.methods, describe: { TaskBinding.describe(Call($0)) }, collect: collect)

    static let thread: Kind = Kind(
        7, "thread", userValues: 0, methods: ThreadBinding.methods, describe: { ThreadBinding.describe(Call($0)) },
        collect: collect)
    static let port: Kind = Kind(
        8, "port", methods: PortBinding.methods, describe: { PortBinding.describe(Call($0)) }, collect: collect)
    static let remoteRequest: Kind = Kind(
        9, "request", userValues: 0, methods: RemoteBinding.methods, describe: { RemoteBinding.describe(Call($0)) },
        collect: collect)
    static let messagePort: Kind = Kind(
        10, "message_port", userValues: 2, methods: MessagePortBinding.methods,
        describe: { MessagePortBinding.describe(Call($0)) }, collect: collect)
    static let remotePort: Kind = Kind(
        11, "remote_port", userValues: 0, methods: RemotePortBinding.methods,
        describe: { RemotePortBinding.describe(Call($0)) }, collect: collect)

    /// A kind comes before those whose methods construct it.
    static let all = [
        request, timer, source, fdPort, observer, loop, task, thread, port, remoteRequest, messagePort, remotePort,
    ]
    /// Those that can be in a mode.
    static let items = [source, fdPort, observer, port, messagePort]
    static func crosses(_ kind: Kind) -> Bool { kind.record == source.record || kind.record == port.record }

    /// Gives up the userdata's reference to its Swift object. The head is cleared first: a finalizer may be called twice.
    package static let collect: LuaFunction = { thread in
        guard let thread, let box = cl_any_box_at(thread, 1), let object = box.pointee.object else { return 0 }
        box.pointee.object = nil
        unsafe Unmanaged<AnyObject>.fromOpaque(object).release()  // retained when it was put there
        return 0
    }

    /// The name of the object at an index; nil if it is none of ours.
    static func name(_ call: Call, _ index: Int32) -> String? {
        guard let box = cl_any_box_at(call.thread, index) else { return nil }
        if box.pointee.kind == UnsafePointer(timer.record) {
            defer { cl_pop(call.thread, 1) }
            lua_getiuservalue(call.thread, index, 2)
            return call.name(-1)
        }
        return ItemBinding.item(call, index)?.item.name ?? call.schedulable(index)?.name ?? ""
    }
}

/// A source, port or observer, as one state sees it.
struct LuaItem {
    let item: RunLoop.Item
    /// Made in this state: here its callbacks run, and only here it can be added to a loop.
    let isHome: Bool
}

/// A source or a port, as all threads see it: what the userdata of kinds that cross hold. Those of the others hold the item.
final class SharedItem: @unchecked Sendable {
    // Sendable: of the item, other threads use only what is safe on any thread.
    let item: RunLoop.Item
    /// Commands posted to a source by other threads.
    let commands = Lock<[Parcel]>([])

    init(_ item: RunLoop.Item) { self.item = item }
}

extension RunLoop.Item {
    /// The head of its userdata while that is anchored, as it is in a mode. On its own thread.
    var box: UnsafeMutablePointer<cl_box>? { UnsafeMutablePointer(bitPattern: context) }
}

/// Calls back the sources, ports and observers of one state.
final class LuaItems: RunLoop.ItemOwner {
    // It outlives all that is in its loop. Not a plain reference; see `LuaRequests`.
    var host: Unmanaged<LuaHost>! = nil

    override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) {
        call(port) { host, thread in
            host.pushEvents(events, onto: thread)
            return 1
        }
    }

    override func forget(_ context: Int) { LiveObjects.note(-1) }

    /// Anchors the userdata of an item, at an index, if it is not. Returns false when memory is out.
    func anchor(_ item: RunLoop.Item, _ call: Call, _ index: Int32) -> Bool {
        guard item.context == 0 else { return true }
        guard let box = cl_any_box_at(call.thread, index) else { return false }
        box.pointee.slot = call.luaHost.anchor(call.thread, index)
        guard box.pointee.slot != 0 else { return false }
        item.context = Int(bitPattern: box)
        return true
    }

    override func letGo(of item: RunLoop.Item) {
        guard let box = item.box else { return }
        item.context = 0
        host._withUnsafeGuaranteedRef { host in
            guard !host.isClosed else { return }
            let slot = box.pointee.slot
            box.pointee.slot = 0
            host.release(slot)
        }
    }

    /// Calls the function in a user value with the object and what `push` pushes; it returns how many that is.
    func call(_ item: RunLoop.Item, userValue: Int32 = 1, _ push: (LuaHost, OpaquePointer) -> Int32) {
        host._withUnsafeGuaranteedRef { host in
            guard !host.isClosed, let box = item.box,
                let (fiber, _) = host.prepareCallback(slot: box.pointee.slot, userValue: userValue)
            else { return }
            lua_pushvalue(fiber.thread, 2)
            host.resume(fiber, arguments: 1 + push(host, fiber.thread))
        }
    }
}
