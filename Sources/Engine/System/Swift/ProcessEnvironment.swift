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

    /// Undoes inherited settings that would make this process miss signals or, in a setuid program, run foreign code.
    /// Call it before there is a second thread.
    package static func makeSafe() { linux_make_inheritance_safe() }

    package static subscript(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}

/// The service manager that has started this process, such as systemd.
package enum ServiceManager {
    /// Sends a message as sd_notify(3) does. Returns false if no service manager has started this process.
    package static func notify(_ bytes: UnsafeRawBufferPointer) throws(SystemError) -> Bool {
        let result = linux_notify_manager(bytes.baseAddress, bytes.count)
        guard result >= 0 else { throw SystemError("sendto", ProcessEnvironment["NOTIFY_SOCKET"] ?? "") }
        return result == 1
    }

    /// Reports once that this process stops, if it has reported that it is ready.
    package static func notifyOfEnd() { linux_notify_manager_of_end() }
}
