internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// The inotify instance that all watchers of a Lua state share. runloop/fs/instance.lua explains its use.
enum WatchBinding {
    /// The instance is closed by `close`, or when it is collected.
    final class Instance {
        var watch: Watch?
        /// A descriptor that is always readable. A gate that contains it is open.
        let bell: Descriptor

        init() throws(SystemError) {
            watch = try Watch()
            bell = try Descriptor.event()
            bell.ring()
        }

        func take() -> ValueProgram {
            var program = ValueProgram()
            program.table { table in
                for change in watch?.take() ?? [] {
                    table.element { program in
                        program.table { table in
                            table.field("watch") { $0.append(Int(change.directory)) }
                            table.field("mask") { $0.append(Int(change.events)) }
                            table.field("cookie") { $0.append(Int(change.cookie)) }
                            if let name = change.name {
                                table.field("name") { $0.append(name.withUnsafeBytes { String(anyBytes: $0) }) }
                            }
                        }
                    }
                }
            }
            return program
        }
    }

    static let kind: Kind = Kind("inotify", methods: methods, collect: Kind.drop)

    private static let methods: Library = Library(
        of: kind,
        [
            // watch(path, events): returns the number of the watch.
            .init("watch") { receiver($0, Instance.self).run { (own, call) throws(Misuse) in try watch(own, call) } },
            .init("unwatch") {
                receiver($0, Instance.self).run { (own, call) throws(Misuse) in
                    own.watch?.remove(try call.number32(2))
                    return call.nothing()
                }
            },
            // Returns { { watch =, mask =, cookie =, name = }, … }.
            .init("take") { receiver($0, Instance.self).answer { $0.take() } },
            // Makes a gate: a descriptor that is readable while the instance has events, and while the gate is open.
            .init("make_gate") { receiver($0, Instance.self).run { (own, call) in makeGate(own, call) } },
            .init("open_gate") {
                receiver($0, Instance.self).run { (own, call) throws(Misuse) in try set(own, call, true) }
            },
            .init("close_gate") {
                receiver($0, Instance.self).run { (own, call) throws(Misuse) in try set(own, call, false) }
            },
            .init("close") { receiver($0, Instance.self).act { $0.watch = nil } },
        ])

    static func open(_ call: Call) -> Int32 {
        call.attempt { () throws(SystemError) in call.answerConstructed(try Instance()) }
    }

    private static func watch(_ own: Instance, _ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(2, Text.self)
        let events = UInt32(truncatingIfNeeded: try call.argument(3, Integer.self))
        guard let watch = own.watch else { return call.fail(SystemError("inotify_add_watch", errno: EBADF)) }
        return path.withAnyCString { path in
            call.attempt { () throws(SystemError) in Int(try watch.add(path, events)) }
        }
    }

    private static func makeGate(_ own: Instance, _ call: Call) -> Int32 {
        guard let watch = own.watch else { return call.nothing() }
        return call.attempt { () throws(SystemError) in Int(try watch.gate().release()) }
    }

    private static func set(_ own: Instance, _ call: Call, _ isOpen: Bool) throws(Misuse) -> Int32 {
        Watch.setGate(try call.number32(2), isOpen: isOpen, bell: own.bell)
        return call.nothing()
    }
}
