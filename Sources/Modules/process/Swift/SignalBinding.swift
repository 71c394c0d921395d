internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// A signal as a port of the loop: its callback runs as the callback of any port does, never in the middle of another.
/// While the port is in a mode, the signal has no other effect. A signal port does not keep a loop running.
final class SignalPort: RunLoop.EdgePort {
    /// Released as soon as the port is invalidated: the number of listeners is limited.
    private var listener: SignalListener?
    private let signal: String
    private var modeCount = 0
    /// The signals received since the last call.
    private var count = 0
    /// The port's function waits. Signals that arrive during the wait are reported when the function has returned.
    private var isHeld = false
    private unowned(unsafe) let host: LuaHost  // The host owns the items, and so outlives everything that they call.

    init(_ number: Int32, _ signal: String, name: String, order: Int, host: LuaHost) throws(SystemError) {
        listener = try SignalListener(number)
        self.host = host
        self.signal = signal
        super.init(name: name, order: order, owner: host.items)
        watch(listener?.descriptor ?? -1)
    }

    override func didEnter(mode: RunLoop.Mode) {
        modeCount += 1
        listener?.setListening(true)
    }

    override func didLeave(mode: RunLoop.Mode) {
        modeCount -= 1
        if modeCount == 0 { listener?.setListening(false) }
    }

    override func note(_ events: RunLoop.FDPort.Events) -> Bool {
        count += listener?.take() ?? 0
        return count > 0 && !isHeld
    }

    override func takeTurn() {
        guard count > 0, !isHeld else { return }
        let count = count
        self.count = 0
        isHeld = true
        let end = CallbackEnd(host) {
            self.isHeld = false
            if self.count > 0 { self.signal() }
        }
        host.items.call(self, owner: end) { _, stack in
            stack.push(count)
            return 1
        }
    }

    override func wasInvalidated() {
        watch(-1)
        listener = nil
    }
}

enum SignalBinding {
    static let kind: Kind = Kind(
        "signal", values: ItemBinding.Value.labels, methods: methods, collect: Kind.drop,
        isUnused: ItemBinding.isUnused)

    private static let methods: Library = Library(
        of: kind,
        [
            ItemBinding.invalidate, ItemBinding.isValid, ItemBinding.name, ItemBinding.order,
            .init("__tostring") {
                receiver($0, SignalPort.self).run { _, call in call.answer(ItemBinding.text(call, [])) }
            },
        ])

    static let constructor = Library.Entry("signal_port", constructs: kind) { thread in
        Call.run(thread) { call throws(Misuse) in try make(call) }
    }

    private enum Option: Int, Field {
        case callback, number, signal, name, order
        static let names: [StaticString] = ["callback", "number", "signal", "name", "order"]
    }

    /// signal_port{…}: makes a port from fields that the Lua half has checked. The new object is argument 1.
    private static func make(_ call: Call) throws(Misuse) -> Int32 {
        let box = call.receiver
        let options = try call.fields(2, Option.self)
        let number = try options.required(.number, Integer.self)
        let signal = try options.required(.signal, Text.self)
        let name = try options[.name, Name.self] ?? signal
        let order = try options[.order, Integer.self] ?? 0
        _ = try options.required(.callback, Function.self)
        options.keep(.callback, as: ItemBinding.Value.callback)
        return call.attempt { () throws(SystemError) in
            let port = try SignalPort(
                Int32(clamping: number), signal, name: name, order: order, host: call.luaHost)
            return ItemBinding.fill(call, box, port)
        }
    }
}
