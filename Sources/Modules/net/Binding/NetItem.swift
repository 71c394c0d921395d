internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// A stream, listener or datagram socket of a script.
protocol NetItem: RunLoop.EdgePort {
    var network: Network { get }
    var isOpen: Bool { get }
    var staysIdle: Bool { get }
}

extension Streams.Stream: NetItem {}
extension Listener: NetItem {}
extension Datagram: NetItem {}

/// The user value: the script's functions for the object, or for the listener that has accepted it.
enum NetValue: Int, UserValue {
    case handlers
    static let labels: [StaticString] = ["handlers"]
}

extension NetItem {
    var part: NetPart? { (network.owner as? LuaStreamOwner)?.part }

    /// Puts the object into its userdata.
    func fill(_ box: Box, site: UInt32) {
        box.hold(self)
        box.site = site
        context = Int(bitPattern: box.address)
        LiveObjects.note(1)
    }

    /// Closes the object when its userdata is collected and nothing else refers to it. The callback must not call Lua.
    static func collect(_ thread: OpaquePointer?) -> Int32 {
        guard let thread, let box = Stack(thread).box(1), box.isFilled else { return 0 }
        let item = box.object(as: Self.self)
        item.context = 0
        if item.isOpen { item.network.abandon(item) }
        LiveObjects.note(-1)
        box.drop()
        return 0
    }
}

extension Fiber {
    /// The object for which the task waits. The object's userdata is on the task's stack. The lowest bits of `waitsFor`
    /// encode how a read ends.
    func waited<Item: AnyObject>(_: Item.Type) -> Item? {
        UnsafeRawPointer(bitPattern: waitsFor & ~7).map { Unmanaged<Item>.fromOpaque($0).takeUnretainedValue() }
    }
}

extension Call {
    /// Makes the task wait: `begin` starts the operation, and `takeBack` undoes it if the task is cancelled or its time
    /// is over.
    func wait<Item: NetItem>(
        in name: StaticString, for item: Item, timeout: Int64 = -1, takeBack: @escaping (Item) -> Void,
        timedOut: @escaping (Item, LuaHost) -> Void = { _, _ in }, begin: (Fiber, LuaHost) -> Void
    ) -> Int32 {
        switch beginWait(
            in: name,
            cancel: { fiber in
                Waiter.cancel(fiber)
                if let item = fiber.waited(Item.self) { takeBack(item) }
            })
        {
        case .refused(let answer): return answer
        case .begun(let fiber):
            withHost { host in
                fiber.waitsFor = Int(bitPattern: Unmanaged.passUnretained(item).toOpaque())
                begin(fiber, host)
                guard timeout >= 0 else { return }
                Waiter.of(fiber, host).limit(
                    timeout, host, keepsAlive: !item.staysIdle,
                    timedOut: { fiber, host in
                        if let item = fiber.waited(Item.self) {
                            takeBack(item)
                            timedOut(item, host)
                        }
                        host.part(NetPart.self).resume(fiber, .timedOut)
                    })
            }
            return yield()
        }
    }
}
