internal import CLinux
internal import Glibc

/// A file that rlhost writes: a new one with a free name, or one that replaces the file that the user has named.
///
/// An existing link, pipe or file cannot redirect what is written; see `files.h`. Not thread-safe.
package final class OutputFile {
    package let descriptor: Descriptor
    /// The path; for a new file, with the name that was free.
    package let path: String
    private var place = OutputFile.nowhere
    private var temporary: UnsafeMutablePointer<CChar>?

    private static var nowhere: linux_place {
        var place = linux_place()
        place.directory = -1
        return place
    }

    /// Makes a new file: "STEM.html", or "STEM-2.html" and so on if that name is taken. Only its owner can read it.
    ///
    /// - Throws: Errors of open(2); EEXIST after thousands of names.
    package init(stem: String, ending: String) throws(SystemError) {
        var name: UnsafeMutablePointer<CChar>?
        descriptor = try Descriptor(linux_make_file(AT_FDCWD, stem, ending, 0o600, &name), "create", stem + ending)
        path = name.map { String(cString: $0) } ?? stem + ending
        free(name)
    }

    /// Begins to write the file that the user has named. The old file stays until `putInPlace`. A device, a pipe or a
    /// handle such as /dev/stdout is written to at once.
    ///
    /// - Parameters:
    ///   - path: The path that the user has named.
    ///   - mode: 0600 makes a private file. With another mode, the file keeps the mode of the old one.
    ///   - followsLinks: False if rlhost has chosen the name: a link or a pipe with that name is then replaced itself.
    /// - Throws: EACCES if the name is a link of another user; ENXIO if no program opens a pipe to read within two
    ///   seconds; EISDIR, ELOOP, and other errors of open(2).
    package convenience init(
        replacing path: String, mode: UInt32 = 0o600, followsLinks: Bool = true
    ) throws(SystemError) {
        try self.init(replacing: path, named: path, mode: mode, followsLinks: followsLinks)
    }

    /// Like the initializer above, for a path whose bytes need not be UTF-8.
    ///
    /// - Parameters:
    ///   - name: The name for messages.
    ///   - waits: Whether to wait without a limit until a program reads a pipe. A loop's thread must not.
    package init(
        replacing path: UnsafePointer<CChar>, named name: String, mode: UInt32, followsLinks: Bool = true,
        waits: Bool = false
    ) throws(SystemError) {
        self.path = name
        var place = OutputFile.nowhere
        var temporary: UnsafeMutablePointer<CChar>?
        let number = linux_begin_replacing(path, mode, followsLinks ? 1 : 0, waits ? 1 : 0, &place, &temporary)
        guard number >= 0 else {
            let error = Self.failure(place, name)
            linux_leave_place(&place)
            throw error
        }
        descriptor = Descriptor(number)
        self.place = place
        self.temporary = temporary
    }

    /// Whether the file replaces another one; false for a device, a pipe and a handle.
    package var replaces: Bool { temporary != nil }

    deinit {
        if let temporary {
            linux_give_up_replacing(&place, temporary)
            free(temporary)
        }
        linux_leave_place(&place)
    }

    /// Renames the file to its path. Further calls do nothing.
    ///
    /// - Throws: Errors of rename(2); the old file then stays.
    package func putInPlace() throws(SystemError) {
        guard let temporary else { return }
        defer { free(temporary) }
        self.temporary = nil
        guard linux_put_in_place(&place, temporary) == 0 else { throw SystemError("rename", path) }
    }

    /// Writes all bytes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        let error = Descriptor.write(bytes, to: descriptor.number)
        guard error == 0 else { throw SystemError("write", path, errno: error) }
    }

    /// Replaces a file by these bytes, completely or not at all.
    package static func write(
        _ bytes: [UInt8], to path: String, mode: UInt32 = 0o600, followsLinks: Bool
    ) throws(SystemError) {
        let file = try OutputFile(replacing: path, mode: mode, followsLinks: followsLinks)
        var failure: SystemError?
        bytes.withUnsafeBytes { bytes in
            do throws(SystemError) { try file.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
        try file.putInPlace()
    }

    /// Opens the file that the user has named, to append to it. Follows links that belong to the user or to root.
    ///
    /// - Parameters:
    ///   - mode: The mode of a file that does not exist, from which the umask removes bits.
    ///   - waits: See `init`.
    package static func appending(
        to path: UnsafePointer<CChar>, named name: String, mode: UInt32, waits: Bool = false
    ) throws(SystemError) -> Descriptor {
        var place = OutputFile.nowhere
        defer { linux_leave_place(&place) }
        let number = linux_open_log(path, mode, waits ? 1 : 0, &place)
        guard number >= 0 else { throw failure(place, name) }
        return Descriptor(number)
    }

    /// Opens or makes a private file to which several processes append.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - creates: Whether to make the file if it does not exist.
    ///   - followsLinks: Whether to follow links of the user, because the user has named the path.
    /// - Throws: ENOENT if the directory is missing; ELOOP or EACCES for a link that is not followed; EACCES for a file
    ///   of another user.
    package static func shared(_ path: String, creates: Bool, followsLinks: Bool) throws(SystemError) -> Descriptor {
        var place = OutputFile.nowhere
        defer { linux_leave_place(&place) }
        if followsLinks {
            guard linux_find_place(path, &place) == 0 else { throw failure(place, path) }
            guard place.is_ours != 0 else {
                throw SystemError("open", path, errno: EACCES, reason: refusal(place, path))
            }
        }
        let directory = followsLinks ? place.directory : AT_FDCWD
        let flags = O_RDWR | O_APPEND
        let number = withUnsafePointer(to: &place.name) { name in
            let name = followsLinks ? String(cString: UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self)) : path
            return creates
                ? linux_open_own(directory, name, flags)
                : openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
        }
        let reason = number < 0 && linux_errno() == ELOOP ? "\(path) is a symbolic link: it is not followed" : nil
        guard number >= 0 else { throw SystemError("create", path, reason: reason) }
        let descriptor = Descriptor(number)
        var status = stat()
        guard fstat(number, &status) == 0 else { throw SystemError("stat", path) }
        // The owner of a file can read all that is written to it. Root is excepted, since it may have kept a user's
        // HOME.
        guard status.st_uid == geteuid() || geteuid() == 0 else {
            throw SystemError("open", path, errno: EACCES, reason: "\(path) belongs to user \(status.st_uid)")
        }
        return descriptor
    }

    private static func failure(_ place: linux_place, _ path: String) -> SystemError {
        let errno = linux_errno()
        let reason = errno == ENXIO ? "no program reads the pipe \(path)" : nil
        return SystemError("create", path, errno: errno, reason: errno == EACCES ? refusal(place, path) : reason)
    }

    private static func refusal(_ place: linux_place, _ path: String) -> String? {
        place.stranger < 0 ? nil : "a symbolic link of user \(place.stranger) is not followed (\(path))"
    }
}
