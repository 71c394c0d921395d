internal import Glibc
internal import Linux
internal import Lua
internal import Streams

/// Sockets that a service manager has opened for this process, as systemd's socket activation does:
/// sd_listen_fds_with_names(3).
enum InheritedSockets {
    /// A list of tables with `fd`, `name`, `kind` and, if the socket has one, `address`. The list is empty if the
    /// variables are missing, or meant for another process.
    static var all: ValueProgram {
        var program = ValueProgram()
        program.table { list in
            for (index, name) in names.enumerated() {
                guard let socket = InheritedSocket(descriptor: 3 + Int32(index)) else { continue }
                list.element { entry in
                    entry.table { entry in
                        entry.field("fd") { $0.append(Int(socket.descriptor)) }
                        entry.field("name") { $0.append(name) }
                        entry.field("kind") { $0.append(socket.kind.rawValue) }
                        if let address = socket.address { entry.field("address") { $0.append(address) } }
                    }
                }
            }
        }
        return program
    }

    /// A name for each descriptor; "" for those without one.
    private static var names: [String] {
        guard let process = ProcessEnvironment["LISTEN_PID"].flatMap({ Int32($0) }), process == getpid(),
            let count = ProcessEnvironment["LISTEN_FDS"].flatMap({ Int($0) }), (1...4096).contains(count)
        else { return [] }
        let given = ProcessEnvironment["LISTEN_FDNAMES"] ?? ""
        let names = given.split(separator: ":", omittingEmptySubsequences: false).map { String($0) }
        return (0..<count).map { $0 < names.count ? names[$0] : "" }
    }
}
