internal import Linux
package import Lua
package import RunLoops

/// A source, port or observer, as one state sees it.
struct LuaItem {
    let item: RunLoop.Item
    /// Whether the item was made in this state. Its callbacks run only in that state, and it can be added only to that
    /// state's loop.
    let isHome: Bool
}

/// A source or a port that other threads can also refer to. The userdata of sources and ports have this object; the
/// userdata of other items have the item itself.
final class SharedItem: @unchecked Sendable {
    // Sendable: other threads use only those parts of the item that are safe on any thread.
    let item: RunLoop.Item
    /// Commands that other threads have posted to a source.
    let commands = Lock<[Parcel]>([])

    init(_ item: RunLoop.Item) { self.item = item }
}

extension RunLoop.Item {
    /// The head of the item's userdata, which is anchored while the item is in a mode. May be used on its own thread
    /// only.
    var box: Box? { Box(bitPattern: context) }
}

/// Calls back the sources, ports and observers of one state.
package final class LuaItems: RunLoop.ItemOwner {
    // The host outlives all items in its loop. Unmanaged; see `LuaRequests`.
    var host: Unmanaged<LuaHost>! = nil

    /// Sources and ports that other threads may refer to. Such items become invalid with this state even if they are in
    /// no mode, since they can be added only to the loop of this state.
    private var crossing: [Weak] = []
    private var mostCrossing = 64
    // Weak references to `SharedItem`, not to the item: counting references to a weakly referenced object takes three
    // times as long.
    private struct Weak { weak var shared: SharedItem? }

    func noteCrossing(_ shared: SharedItem) {
        crossing.append(Weak(shared: shared))
        guard crossing.count > mostCrossing else { return }
        crossing.removeAll { $0.shared == nil }
        mostCrossing = max(64, 2 * crossing.count)
    }

    func invalidateCrossing() {
        let left = crossing
        crossing = []
        for one in left { one.shared?.item.invalidate() }
    }

    package override func deliver(_ events: RunLoop.FDPort.Events, of port: RunLoop.FDPort) {
        call(port) { host, stack in
            host.texts.push(events, onto: stack)
            return 1
        }
    }

    package override func perform(_ source: RunLoop.Source) { call(source) { _, _ in 0 } }

    package override func forget(_ context: Int) { LiveObjects.note(-1) }

    /// Anchors the userdata of an item, at an index, unless it is anchored. Returns false if there is no memory.
    package func anchor(_ item: RunLoop.Item, _ stack: Stack, _ index: Int32) -> Bool {
        guard item.context == 0 else { return true }
        guard let box = stack.box(index) else { return false }
        box.slot = stack.anchor(index)
        guard box.slot != 0 else { return false }
        box.flags |= ItemBinding.wasInLoop
        item.context = Int(bitPattern: box.address)
        return true
    }

    package override func letGo(of item: RunLoop.Item) {
        guard let box = item.box else { return }
        item.context = 0
        host._withUnsafeGuaranteedRef { host in
            guard !host.isClosed else { return }
            let slot = box.slot
            box.slot = 0
            host.release(slot)
        }
    }

    /// Calls the function that is stored in a user value. Its arguments are the object, and the values that `push`
    /// pushes; `push` returns their number.
    package func call(
        _ item: RunLoop.Item, userValue: Int32 = 1, owner: FiberOwner? = nil, _ push: (LuaHost, Stack) -> Int32
    ) {
        host._withUnsafeGuaranteedRef { host in
            guard !host.isClosed, let box = item.box,
                let (fiber, _) = host.prepareCallback(slot: box.slot, userValue: userValue)
            else { return }
            host.tellSubject(fiber)
            if let owner { fiber.owner = owner }
            fiber.stack.pushCopy(of: 2)
            host.resume(fiber, arguments: 1 + push(host, fiber.stack))
        }
    }
}
