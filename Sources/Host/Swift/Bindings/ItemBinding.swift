package import Lua
package import RunLoops

/// The common part of sources, ports and observers in Lua.
package enum ItemBinding {
    /// The first user value of all these items.
    package enum Value: Int, UserValue {
        case callback
        package static let labels: [StaticString] = ["callback"]
    }

    package static let invalidate = Library.Entry("invalidate") { thread in
        anyItem(thread).run { (item, call) throws(Misuse) in
            guard item.isHome else { throw Misuse("only the thread that made it can do that") }
            item.item.invalidate()
            return call.forgetCallback()
        }
    }
    package static let isValid = Library.Entry("is_valid") { anyItem($0).answer { $0.item.isValid } }
    package static let name = Library.Entry("name") { anyItem($0).answer { $0.item.name } }
    package static let order = Library.Entry("order") { anyItem($0).answer { $0.item.order } }

    @inline(__always)
    private static func anyItem(_ thread: OpaquePointer?) -> Receiver<LuaItem> {
        let call = Call(thread)
        guard let item = item(call.receiver, call.stack) else { return Receiver(call, refusal: "it is not an item") }
        return Receiver(call, item)
    }

    /// Returns the receiver of a method, for kinds whose objects can be sent to other threads.
    @inline(__always)
    static func shared<Item: RunLoop.Item>(_ thread: OpaquePointer?, _: Item.Type) -> Receiver<Item> {
        let call = Call(thread)
        // The kind's constructor has put an object of this class there.
        return Receiver(call, unsafe unsafeDowncast(call.receiver.object(as: SharedItem.self).item, to: Item.self))
    }

    /// Runs a frequently used method of a shared item, without counting references.
    @inline(__always)
    static func act<Item: RunLoop.Item>(_ thread: OpaquePointer?, _: Item.Type, _ body: (Item) -> Void) -> Int32 {
        Call(thread).receiver.with(SharedItem.self) { shared in
            // The userdata holds the item while its method runs.
            Unmanaged<Item>.fromOpaque(Unmanaged.passUnretained(shared.item).toOpaque())._withUnsafeGuaranteedRef(body)
        }
        return 0
    }

    private static func crosses(_ box: Box) -> Bool { box.is(Kinds.source) || box.is(Kinds.port) }

    /// Options of an item that say in which modes it is, and whether it keeps the loop alive.
    struct Stay {
        let modes: [RunLoop.Mode]
        let keepsAlive: Bool

        init(_ modes: [RunLoop.Mode]?, _ keepsAlive: Bool?) {
            self.modes = modes ?? []
            self.keepsAlive = keepsAlive ?? true
        }
    }

    /// Puts an engine object into the userdata that is argument 1. The userdata holds the object; while the object is
    /// in a mode, the object anchors the userdata.
    package static func fill(_ call: Call, _ box: Box, _ item: RunLoop.Item) -> Int32 {
        LiveObjects.note(1)
        if crosses(box) {
            let shared = SharedItem(item)
            call.luaHost.items.noteCrossing(shared)
            box.hold(shared)
        } else {
            box.hold(item)
        }
        box.site = call.site
        call.stack.top = 1
        return 1
    }

    /// A flag in the userdata of these kinds: the item is or was in a mode.
    static let wasInLoop: UInt32 = 1

    /// Whether the item can still call back, but was never in a mode. Items from other threads have no creation site
    /// here and are left out.
    package static let isUnused: Kind.IsUnused = { head, name, most in
        guard let head else { return 0 }
        let box = Box(head)
        guard box.isFilled, box.site != 0, box.flags & wasInLoop == 0 else { return 0 }
        let object = box.object(as: AnyObject.self)
        let item = (object as? SharedItem)?.item ?? object as? RunLoop.Item
        guard let item, item.isValid else { return 0 }
        item.name.withAnyBytes { bytes in
            guard let name else { return }
            for (i, byte) in bytes.prefix(most).enumerated() { name[i] = CChar(bitPattern: byte) }
            name[min(most, bytes.count)] = 0
        }
        return 1
    }

    /// Fills the userdata, and adds the item to the modes of its options.
    static func fill(_ call: Call, _ box: Box, _ item: RunLoop.Item, _ stay: Stay) throws(Misuse) -> Int32 {
        if !stay.keepsAlive { item.keepsAlive = false }
        let count = fill(call, box, item)
        try add(item, to: stay.modes, call, 1)
        return count
    }

    /// Adds an item, whose userdata is at an index, to modes of the current loop.
    static func add(_ item: RunLoop.Item, to modes: [RunLoop.Mode], _ call: Call, _ index: Int32) throws(Misuse) {
        guard !modes.isEmpty else { return }
        let host = call.luaHost
        for mode in modes {
            // Anchor the userdata for each mode: the schedule function of a source may remove the source from the mode
            // at once, which releases the anchor.
            guard host.items.anchor(item, call.stack, index) else { throw .noMemory }
            host.loop.add(item, to: mode)
            if !host.loop.isHolding(item) { host.items.letGo(of: item) }
        }
    }

    /// The kinds that can be in a mode.
    private static let kinds = [Kinds.source, Kinds.fdPort, Kinds.observer, Kinds.port, Kinds.messagePort]

    /// Returns nil for an object of another kind, and for an object whose finalizer a script has called.
    static func item(_ box: Box, _ stack: Stack) -> LuaItem? {
        guard box.isFilled else { return nil }
        if crosses(box) {
            let item = box.object(as: SharedItem.self).item
            return LuaItem(item: item, isHome: item.owner === LuaHost.running(stack.thread).items)
        }
        if kinds.contains(where: { box.is($0) }) {
            return LuaItem(item: box.object(as: RunLoop.Item.self), isHome: true)
        }
        // An item that a module defines. `Schedulable` objects enter modes by their own methods.
        guard box.schedulable == nil, let item = box.object(as: AnyObject.self) as? RunLoop.Item else {
            return nil
        }
        return LuaItem(item: item, isHome: true)
    }

    /// Returns a description such as `observer "flush" (before_waiting, in default, made at app.lua:12)`.
    package static func text(_ call: Call, _ details: [String]) -> String {
        let box = call.receiver
        guard let item = item(box, call.stack) else { return box.kindName }
        var parts = details
        if !item.isHome {
            parts.append("of another thread")
        } else if !item.item.isValid {
            parts.append("invalid")
        } else {
            let modes = item.item.modeNames.map(\.rawValue)
            parts.append(modes.isEmpty ? "in no mode" : "in \(modes.joined(separator: ", "))")
        }
        return String(box.kindName, name: item.item.name, parts, site: call.luaHost.site(box.site))
    }
}

extension Call {
    /// Releases the callback of the object that is argument 1, and its further arguments, which come after the kind's
    /// own values.
    func forgetCallback(values: Int32 = 1) -> Int32 {
        stack.pushNil()
        stack.setUserValue(ItemBinding.Value.callback.number, of: 1)
        for i in 0..<receiver.spread {
            stack.pushNil()
            stack.setUserValue(values + 1 + i, of: 1)
        }
        return 0
    }
}
