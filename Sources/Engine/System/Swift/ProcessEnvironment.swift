internal import CLinux
internal import Glibc

/// The variables of this process.
package enum ProcessEnvironment {
    /// "NAME=value" each, as bytes.
    package static var all: [[UInt8]] {
        var all: [[UInt8]] = []
        var place = 0
        while let entry = linux_variables()?[place] {
            all.append(Array(UnsafeRawBufferPointer(start: entry, count: strlen(entry))))
            place += 1
        }
        return all
    }

    /// Undoes what the parent has left that would make this process deaf, or, in a setuid program, run other code. Before there is a
    /// second thread.
    package static func makeSafe() { linux_make_inheritance_safe() }

    package static subscript(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}

/// One message to a Unix socket, and no more.
package enum Datagram {
    /// - Parameter path: of the socket; one that begins with "@" is an abstract name.
    package static func send(_ bytes: UnsafeRawBufferPointer, to path: String) throws(SystemError) {
        guard linux_send_datagram(path, bytes.baseAddress, bytes.count) == 0 else { throw SystemError("sendto", path) }
    }
}
