internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// `process.set_user`.
enum UserBinding {
    /// (user, group): names or numbers. The Lua half has checked their types.
    static func setUser(_ call: Call) throws(Misuse) -> Int32 {
        let host = call.luaHost
        guard !host.parts.contains(where: \.isInEntry) else {
            throw Misuse("attached code cannot change this")
        }
        let shown = call.stack.string(1) ?? "user \(call.integer(1) ?? 0)"
        guard Account.mayChange else { return call.fail("only root can become \(shown.shownInLine)", code: "EPERM") }
        return call.attempt { () throws(SystemError) in
            var group: UInt32?
            if !call.isMissing(2) {
                group = try number(call, 2) { name throws(SystemError) in try Account.group(named: name) }
                guard group != nil else {
                    return call.fail("no group named \((call.stack.string(2) ?? "").shownInLine)", code: "ENOENT")
                }
            }
            let isNumber = call.stack.type(1) == .number
            guard var account = try account(call, group) else {
                return call.fail(
                    isNumber ? "\(shown) is not listed: name a group, too" : "no user named \(shown.shownInLine)",
                    code: "ENOENT")
            }
            guard account.user != 0 else {
                return call.fail("becoming root does not give up root's rights", code: "EINVAL")
            }
            if let group { account.setGroup(group) }
            return try change(host, account, call)
        }
    }

    private static func account(_ call: Call, _ group: UInt32?) throws(SystemError) -> Account? {
        if call.stack.type(1) == .number {
            return try Account(number: UInt32(clamping: call.integer(1) ?? 0), group: group)
        }
        return try Account(named: call.stack.string(1) ?? "")
    }

    private static func number(
        _ call: Call, _ index: Int32, _ find: (String) throws(SystemError) -> UInt32?
    ) throws(SystemError) -> UInt32? {
        if call.stack.type(index) == .number { return UInt32(clamping: call.integer(index) ?? 0) }
        return try find(call.stack.string(index) ?? "")
    }

    private static func change(_ host: LuaHost, _ account: Account, _ call: Call) throws(SystemError) -> Int32 {
        for part in host.parts { part.willChangeUser() }
        defer { for part in host.parts { part.didChangeUser() } }
        try account.become()
        return call.answer(true)
    }
}
