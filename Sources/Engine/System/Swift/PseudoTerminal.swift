internal import CLinux

/// A terminal whose keyboard and screen are a descriptor: a pty.
package struct PseudoTerminal: Sendable {
    /// What is written here are keys; what is read here is for the screen.
    package let master: Descriptor
    /// Of the terminal that a program gets.
    package let path: String

    /// - Throws: EMFILE, ENOSPC and the like.
    package init(rows: Int32 = 24, columns: Int32 = 80) throws(SystemError) {
        var name = [CChar](repeating: 0, count: 128)
        master = try Descriptor(linux_open_terminal(rows, columns, &name, name.count), "openpt")
        path = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The side that programs have. As long as it is open, nobody is hung up.
    package func slave() throws(SystemError) -> Descriptor { try Descriptor(linux_open_slave(path), "open", path) }

    /// Whose programs are told so by SIGWINCH.
    package static func resize(_ master: Int32, rows: Int32, columns: Int32) throws(SystemError) {
        guard linux_resize_terminal(master, rows, columns) == 0 else {
            throw SystemError("ioctl", "descriptor \(master)")
        }
    }
}
