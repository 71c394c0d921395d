package import Lua
internal import RunLoops

/// The kinds of userdata that scripts see.
package enum Kinds {
    package static let timer: Kind = Kind(
        "timer", payload: MemoryLayout<RunLoop.TimerNode>.size, values: TimerBinding.Value.labels,
        methods: TimerBinding.methods, isUnused: TimerBinding.isUnused, inherits: true)
    static let source: Kind = Kind(
        "source", values: SourceBinding.Value.labels, methods: SourceBinding.methods, collect: Kind.drop,
        isUnused: ItemBinding.isUnused)
    static let fdPort: Kind = Kind(
        "fd_port", values: FDPortBinding.Value.labels, methods: FDPortBinding.methods, collect: Kind.drop,
        isUnused: ItemBinding.isUnused)
    static let observer: Kind = Kind(
        "observer", values: ItemBinding.Value.labels, methods: ObserverBinding.methods, collect: Kind.drop,
        isUnused: ItemBinding.isUnused)
    static let loop: Kind = Kind("loop", methods: LoopBinding.methods, collect: Kind.drop)
    static let request: Kind = Kind(
        "request", payload: MemoryLayout<UInt64>.size, values: ItemBinding.Value.labels,
        methods: RequestBinding.methods, inherits: true)
    package static let task: Kind = Kind(
        "task", values: TaskBinding.Value.labels, methods: TaskBinding.methods, collect: Kind.drop)
    static let thread: Kind = Kind("thread", methods: ThreadBinding.methods, collect: Kind.drop)
    static let port: Kind = Kind(
        "port", values: ItemBinding.Value.labels, methods: PortBinding.methods, collect: Kind.drop,
        isUnused: ItemBinding.isUnused)
    static let threadRequest: Kind = Kind("request", methods: ThreadRequestBinding.methods, collect: Kind.drop)
    static let messagePort: Kind = Kind(
        "message_port", values: MessagePortBinding.Value.labels, methods: MessagePortBinding.methods,
        collect: Kind.drop, isUnused: ItemBinding.isUnused)
    static let remotePort: Kind = Kind("remote_port", methods: RemotePortBinding.methods, collect: Kind.drop)
    static let condition: Kind = Kind("condition", methods: ConditionBinding.methods, collect: Kind.drop)
    static let future: Kind = Kind(
        "future", payload: MemoryLayout<Future>.size, values: FutureBinding.Value.labels,
        methods: FutureBinding.methods)

    static let mutex: Kind = Kind(
        "mutex", payload: MemoryLayout<Mutex>.size, values: Mutex.Value.labels, methods: MutexBinding.methods)
    static let held: Kind = Kind(
        "held", payload: MemoryLayout<Held>.size, values: Held.Value.labels, methods: MutexBinding.heldMethods)

    /// The kinds that every state defines. Modules define further ones when they are first used.
    ///
    /// A kind comes before the kinds whose methods make objects of it.
    static let all = [
        request, threadRequest, timer, source, fdPort, observer, loop, task, thread, port, messagePort, remotePort,
    ]

    /// Returns the name of the object at an index; nil if it is not an object of this host.
    package static func name(_ stack: Stack, _ index: Int32) -> String? {
        guard let box = stack.box(index) else { return nil }
        guard box.is(timer) else { return ItemBinding.item(box, stack)?.item.name ?? box.schedulable?.name ?? "" }
        stack.pushUserValue(TimerBinding.Value.name.number, of: index)
        defer { stack.pop() }
        return Text.read(stack, -1) ?? ""
    }
}
