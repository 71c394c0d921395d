internal import Glibc
internal import Lua
public import LuaRunLoops
internal import RunLoops

extension Battery {
    /// `rl.attach`.
    public static let attach = Battery(
        adding: Library("rl.", [.init("attach") { Call.run($0, AttachServerBinding.attach) }]))
}

private enum AttachServerBinding {
    private static let refusal = "attached code cannot change this"

    /// rl.attach(name): opens the port under a name, or without one; false closes it. Returns the name to attach by.
    static func attach(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        if call.stack.type(1) == .boolean, !call.boolean(1) {
            if host.isEntryOfGuest { throw Misuse(refusal) }
            host.stopBeingAttachable()
            if host.thread == nil { host.setAttaching(isAllowed: false) }
            return call.answerNil()
        }
        guard call.isMissing(1) || call.stack.type(1) == .string else {
            throw call.wrong(1, "a name, nothing, or false")
        }
        var name: String?
        if !call.isMissing(1) {
            guard let text = UTF8Text.read(call.stack, 1) else {
                throw Misuse("argument #1 must be UTF-8")
            }
            if let fault = Attach.fault(inName: text) { throw Misuse("argument #1 \(fault)") }
            name = text
        }
        guard host.thread == nil else {
            throw Misuse("only the main thread's loop can be attached to: call it there")
        }
        if host.isEntryOfGuest, host.attachServer?.name != name {
            throw Misuse(refusal)
        }
        if let refusal = host.beAttachable(name: name) {
            return call.fail(refusal)
        }
        return call.answer(name ?? "\(getpid())")
    }
}
