package import Lua
package import RunLoops

/// The Swift object of a battery's userdata that can be in modes of a loop: `loop:add`, `loop:remove` and
/// `loop:contains` accept it besides timers, sources, ports and observers. It corresponds to
/// CFReadStreamScheduleWithRunLoop and similar calls.
///
/// All calls are made on the loop's thread.
package protocol Schedulable: AnyObject {
    /// The name in messages; "" if it has none.
    var name: String { get }
    /// Adds the items that serve the object. The userdata is argument 2 of the call, for anchoring.
    func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse)
    func remove(from loop: RunLoop, mode: RunLoop.Mode)
    func isIn(_ loop: RunLoop, mode: RunLoop.Mode) -> Bool
}

extension Schedulable where Self: RunLoop.Item {
    package func remove(from loop: RunLoop, mode: RunLoop.Mode) { loop.remove(self, from: mode) }
    package func isIn(_ loop: RunLoop, mode: RunLoop.Mode) -> Bool { loop.contains(self, in: mode) }
}

extension Stack {
    /// If the value is a table that represents an object written in Lua, replaces it by the item that the table's
    /// metatable names. `__item` is the name of a field, which is read raw, as in `__item = "port"`; or a function of
    /// the module that returns the item.
    func replaceByItem(_ index: Int32) {
        guard type(index) == .table, reserve(4) else { return }
        let top = top
        defer { self.top = top }
        guard pushMetatable(of: index), push("__item") else { return }
        pushField(of: top + 1)
        if type(-1) == .function {
            pushCopy(of: index)
            guard call(arguments: 1, results: 1) else { return }
        } else {
            guard type(-1) == .string else { return }
            pushField(of: index)
        }
        copy(-1, to: index)
    }
}

extension Box {
    /// The Swift object in the userdata, if it can be in modes.
    var schedulable: (any Schedulable)? { isFilled ? object(as: AnyObject.self) as? any Schedulable : nil }
}
