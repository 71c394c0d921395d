internal import CLuaSupport
internal import Glibc
internal import Linux
internal import Lua
internal import RunLoops

/// `rl.attach`.
enum AttachBinding {
    private static let refusal = "rl.attach: code of somebody who is attached cannot change this"

    /// rl.attach(name): name, nothing, or false to take it back. Answers the name to attach by.
    static func attach(_ call: Call) -> Int32 {
        let host = call.luaHost
        if call.type(1) == LUA_TBOOLEAN, !call.boolean(1) {
            if host.isEntryOfGuest { return call.raise(refusal) }
            host.stopBeingAttachable()
            return call.answerNil()
        }
        guard call.isMissing(1) || call.type(1) == LUA_TSTRING else {
            return call.wrongArgument("rl.attach", 1, "a name, nothing, or false")
        }
        var name: String?
        if !call.isMissing(1) {
            guard let text = MessagePortBinding.name(call, 1) else {
                return call.raise("rl.attach: argument #1 must be UTF-8")
            }
            if let fault = Attach.fault(inName: text) { return call.raise("rl.attach: argument #1 \(fault)") }
            name = text
        }
        guard host.thread == nil else {
            return call.raise("rl.attach: only the main thread's loop can be attached to: call it there")
        }
        if host.isEntryOfGuest, host.attachServer?.name != name {
            return call.raise(refusal)
        }
        if let refusal = host.beAttachable(name: name, title: host.title) {
            return call.fail(refusal)
        }
        return call.answer(name ?? "\(getpid())")
    }
}
