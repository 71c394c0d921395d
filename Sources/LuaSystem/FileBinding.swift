internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops

/// What `runloop.fs`, which is written in Lua, needs of the system.
enum FileBinding {
    static let functions = Library(
        "runloop.fs.",
        [
            .init("open_watch") { Call.run($0) { call in openWatch(call) } },
            .init("watch") { Call.run($0) { call throws(Misuse) in try watch(call) } },
            .init("unwatch") { Call.run($0) { call throws(Misuse) in try unwatch(call) } },
            .init("take") { Call.run($0) { call throws(Misuse) in try take(call) } },
            .init("list") { Call.run($0) { call throws(Misuse) in try list(call) } },
            .init("kind") { Call.run($0) { call throws(Misuse) in try kind(call) } },
            .init("limit") { Call.run($0) { call throws(Misuse) in try limit(call) } },
            .init("file") { Call.run($0) { call throws(Misuse) in try Files.run(call) } },
        ])

    private static func descriptor(_ call: Call) throws(Misuse) -> Int32 {
        Int32(clamping: try call.argument(1, Integer.self))
    }

    private static func openWatch(_ call: Call) -> Int32 {
        do throws(SystemError) {
            return call.answer(Int(try Watch().descriptor.release()))
        } catch {
            return call.fail(error)
        }
    }

    /// watch(descriptor, path, events): its number there.
    private static func watch(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try descriptor(call)
        let path = try call.argument(2, Text.self)
        let events = UInt32(truncatingIfNeeded: try call.argument(3, Integer.self))
        do throws(SystemError) {
            var result = Result<Int32, SystemError>.success(-1)
            path.withAnyCString { path in
                do throws(SystemError) { result = .success(try Watch.add(path, to: fd, events)) } catch {
                    result = .failure(error)
                }
            }
            return call.answer(Int(try result.get()))
        } catch {
            return call.fail(error)
        }
    }

    private static func unwatch(_ call: Call) throws(Misuse) -> Int32 {
        Watch.remove(Int32(clamping: try call.argument(2, Integer.self)), from: try descriptor(call))
        return call.nothing()
    }

    /// take(descriptor): { { watch =, mask =, cookie =, name = }, … }
    private static func take(_ call: Call) throws(Misuse) -> Int32 {
        let fd = try descriptor(call)
        var program = ValueProgram()
        program.table { table in
            for change in Watch.take(from: fd) {
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
        return call.answer(program)
    }

    private static func list(_ call: Call) throws(Misuse) -> Int32 {
        switch Files.list(try call.argument(1, Text.self)) {
        case .success(let program): return call.answer(program)
        case .failure(let error): return call.fail(error)
        }
    }

    /// "file", "directory", "link", …; what a link leads to counts.
    private static func kind(_ call: Call) throws(Misuse) -> Int32 {
        let path = try call.argument(1, Text.self)
        var information = stat()
        guard path.withAnyCString({ stat($0, &information) }) == 0 else { return call.fail(SystemError("stat", path)) }
        return call.answer(Files.kind(of: information.st_mode))
    }

    /// A limit of inotify's; nil if it cannot be told.
    private static func limit(_ call: Call) throws(Misuse) -> Int32 {
        let name = try call.argument(1, Text.self)
        guard case .success(.bytes(let bytes)) = Files.read("/proc/sys/fs/inotify/\(name)", 100) else {
            return call.answerNil()
        }
        return call.answer(String(decoding: bytes, as: UTF8.self).filter(\.isNumber))
    }
}
