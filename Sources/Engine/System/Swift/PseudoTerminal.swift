internal import CLinux

/// A pseudo-terminal: a terminal whose keyboard and screen are a descriptor of this process.
package struct PseudoTerminal: Sendable {
    /// The controlling end. Bytes written to it arrive as typed keys; reading it returns the output for the screen.
    package let master: Descriptor
    /// The path of the terminal for a program.
    package let path: String

    /// - Throws: EMFILE, ENOSPC and similar errors.
    package init(rows: Int32 = 24, columns: Int32 = 80) throws(SystemError) {
        var name = [CChar](repeating: 0, count: 128)
        master = try Descriptor(linux_open_terminal(rows, columns, &name, name.count), "openpt")
        path = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Opens the end for programs. While that end is open, the terminal does not hang up.
    package func slave() throws(SystemError) -> Descriptor { try Descriptor(linux_open_slave(path), "open", path) }

    /// Sets the size. Programs of the terminal get SIGWINCH.
    package static func resize(_ master: Int32, rows: Int32, columns: Int32) throws(SystemError) {
        guard linux_resize_terminal(master, rows, columns) == 0 else {
            throw SystemError("ioctl", "descriptor \(master)")
        }
    }
}
