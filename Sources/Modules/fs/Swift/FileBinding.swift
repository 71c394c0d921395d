internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The native functions of `runloop.fs`, which is written in Lua.
enum FileBinding {
    static let functions = Library(
        "runloop.fs.",
        [
            .init("open_watch", constructs: WatchBinding.kind) { Call.run($0) { call in WatchBinding.open(call) } },
            .init("list") { Call.run($0) { call throws(Misuse) in try list(call) } },
            .init("kind") { Call.run($0) { call throws(Misuse) in try kind(call) } },
            .init("link_target") { Call.run($0) { call throws(Misuse) in try linkTarget(call) } },
            .init("limit") { Call.run($0) { call throws(Misuse) in try limit(call) } },
            .init("file") { Call.run($0) { call throws(Misuse) in try Files.run(call) } },
        ] + LockBinding.entries)

    private static func list(_ call: Call) throws(Misuse) -> Int32 {
        let listed = Files.list(try call.argument(1, Text.self))
        return call.attempt { () throws(SystemError) in try listed.get() }
    }

    /// kind(path, whether a link itself is meant): returns "file", "directory", "link" …, and a text that identifies
    /// the file.
    private static func kind(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        let isLinkItself = call.stack.boolean(2)
        var information = stat()
        guard path.withAnyCString({ isLinkItself ? lstat($0, &information) : stat($0, &information) }) == 0 else {
            return call.fail(SystemError("stat", path))
        }
        guard call.stack.push(Files.kind(of: information.st_mode)),
            call.stack.push("\(information.st_dev):\(information.st_ino)")
        else { throw .noMemory }
        return call.values(2)
    }

    /// Returns the target of a symbolic link; nil if the path is not a link.
    private static func linkTarget(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        let target = path.withAnyCString { Directory.target(ofLink: $0) }
        return call.answer(target.map { $0.withUnsafeBytes { String(anyBytes: $0) } })
    }

    /// Returns a limit of inotify; nil if it cannot be read.
    private static func limit(_ call: Call) throws(Misuse) -> Int32 {
        let name = try call.argument(1, Text.self)
        guard case .success(.bytes(let bytes)) = Files.read("/proc/sys/fs/inotify/\(name)", 100) else {
            return call.answerNil()
        }
        return call.answer(String(decoding: bytes, as: UTF8.self).filter(\.isNumber))
    }
}
