internal import CLinux
internal import Glibc

/// The environment variables of this process.
package enum ProcessEnvironment {
    /// All variables, each as the bytes of "NAME=value".
    package static var all: [[UInt8]] {
        var all: [[UInt8]] = []
        var place = 0
        while let entry = linux_variables()?[place] {
            all.append(Array(UnsafeRawBufferPointer(start: entry, count: strlen(entry))))
            place += 1
        }
        return all
    }

    /// Undoes settings of the parent that would make this process miss signals or, in a setuid program, run other code.
    /// Call it before there is a second thread.
    package static func makeSafe() { linux_make_inheritance_safe() }

    package static subscript(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}

/// Single messages to Unix sockets.
package enum Datagram {
    /// - Parameter path: The path of the socket; with "@" at the beginning, an abstract name.
    package static func send(_ bytes: UnsafeRawBufferPointer, to path: String) throws(SystemError) {
        guard linux_send_datagram(path, bytes.baseAddress, bytes.count) == 0 else { throw SystemError("sendto", path) }
    }
}
