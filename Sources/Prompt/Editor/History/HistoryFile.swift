internal import Glibc
public import Linux

/// A file of entries that several sessions append to at once.
///
/// Appending is one `write` on a descriptor opened with `O_APPEND`, under an exclusive `flock` of the file, so that
/// nobody appends to a file that is just being replaced. Shortening writes a new file and renames it over the old one.
/// Whoever has got the lock looks whether the path still names the file that was locked, and starts again if not.
/// A process may be killed at any moment: what was appended before stays whole. The kernel cuts a `write` of a process
/// that is killed short, between two pages: what it leaves of a line is no entry, and the next append takes it away. A
/// last line that ends elsewhere was written by hand, and is ended by the next append.
///
/// `flock` is not reliable on some network file systems; there two sessions that shorten at once may lose entries.
public struct HistoryFile: Sendable {
    /// Where the file is; it and its directory need not exist yet.
    public let path: String

    /// Entries that would take more bytes than this are not written.
    public static let longestEntry = 1 << 20

    /// How much of the end of a file is read, in bytes, however large it has become.
    static let longestRead = 64 << 20

    /// How long a lock is waited for, in milliseconds, before appending fails. It is held for less than one
    /// millisecond, unless its holder was stopped.
    static let patience = 100

    private let followsLinks: Bool

    /// - Parameter followsLinks: those that the user owns, as where the user has chosen the path.
    public init(path: String, followsLinks: Bool = true) {
        self.path = path
        self.followsLinks = followsLinks
    }

    /// Reads all entries, the oldest first, without those that repeat the one before. A file that does not exist has
    /// none. O(n).
    public func load() throws(SystemError) -> [String] { Self.entries(try contents()) }

    /// Appends one entry. Creates the file with mode 0600 and its directory with mode 0700 where they are missing.
    public func append(_ entry: String) throws(SystemError) {
        let line = HistoryCoding.encode(entry)
        guard line.count <= Self.longestEntry else { return }
        let (file, size) = try openLockedOrMake()
        let descriptor = file.number
        let end = size - (try removeRemains(descriptor, size))
        var last: UInt8 = 0x0A
        if end > 0, pread(descriptor, &last, 1, off_t(end - 1)) != 1 { throw failure("read") }
        let bytes = last == 0x0A ? line : [0x0A] + line
        let written = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        guard written != bytes.count else { return }
        let error = written < 0 ? errno : ENOSPC
        // A full disk takes a part of a line; without the rest it would be read as an entry nobody made.
        if written > 0 { _ = ftruncate(descriptor, off_t(end)) }
        throw SystemError("write", path, errno: error)
    }

    /// Shortens the file to its newest `limit` entries once it has a quarter more than that. Returns whether it had. O(n).
    @discardableResult
    public func compact(limit: Int) throws(SystemError) -> Bool {
        // Most files are short, and need no lock to see that.
        guard try contents().count(where: { $0 == 0x0A }) > limit + limit / 4 else { return false }
        let (file, _) = try openLocked(creating: false)
        let entries = Self.entries(try read(file.number)).suffix(limit)
        try replace(with: entries.flatMap { HistoryCoding.encode($0) })
        return true
    }
}

extension HistoryFile {
    private func failure(_ call: String, _ path: String? = nil) -> SystemError {
        SystemError(call, path ?? self.path, errno: errno)
    }

    /// A pipe would be waited for, and a device may never end.
    private func checkKind(_ descriptor: Int32) throws(SystemError) {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw failure("stat") }
        guard information.st_mode & S_IFMT == S_IFREG else {
            throw SystemError("open", path, errno: EINVAL, reason: "\(path) is not a regular file")
        }
    }

    /// How many bytes at the end of a file are what a killed process has left of a line: 0 unless it ends between two pages.
    ///
    /// - Parameter bytes: the end of the file, or all of it.
    private static func remains(_ bytes: [UInt8], fileSize: Int) -> Int {
        guard fileSize % sysconf(Int32(_SC_PAGESIZE)) == 0 else { return 0 }
        let count = bytes.reversed().prefix { $0 != 0x0A }.count
        // Longer ones are none of ours.
        return count < longestEntry ? count : 0
    }

    private static func entries(_ bytes: [UInt8]) -> [String] {
        var entries: [String] = []
        for line in bytes.split(separator: 0x0A) {
            let entry = HistoryCoding.decode(line)
            if entry != entries.last { entries.append(entry) }
        }
        return entries
    }

    /// Takes away what a killed process has left of a line. Returns how many bytes. The file has to be locked.
    private func removeRemains(_ descriptor: Int32, _ size: Int) throws(SystemError) -> Int {
        guard size > 0, size % sysconf(Int32(_SC_PAGESIZE)) == 0 else { return 0 }
        let start = max(0, size - Self.longestEntry)
        var bytes = [UInt8](repeating: 0, count: size - start)
        let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(start)) }
        guard count == bytes.count else { throw failure("read") }
        let remains = Self.remains(bytes, fileSize: size)
        guard remains == 0 || ftruncate(descriptor, off_t(size - remains)) == 0 else { throw failure("truncate") }
        return remains
    }

    // What is to be read of the file; nothing if there is none.
    private func contents() throws(SystemError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return [] }
            throw failure("open")
        }
        defer { close(descriptor) }
        try checkKind(descriptor)
        return try read(descriptor)
    }

    private func read(_ descriptor: Int32) throws(SystemError) -> [UInt8] {
        let size = lseek(descriptor, 0, SEEK_END)
        guard size >= 0 else { throw failure("seek") }
        let start = max(0, Int(size) - Self.longestRead)
        guard lseek(descriptor, off_t(start), SEEK_SET) >= 0 else { throw failure("seek") }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = buffer.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("read") }
            if count == 0 { break }
            bytes.append(contentsOf: buffer[..<count])
        }
        bytes.removeLast(Self.remains(bytes, fileSize: start + bytes.count))
        // A line whose beginning was left out is no entry.
        if start > 0, let end = bytes.firstIndex(of: 0x0A) { bytes.removeFirst(end + 1) }
        return bytes
    }

    private func openLockedOrMake() throws(SystemError) -> (file: Descriptor, size: Int) {
        do throws(SystemError) { return try openLocked(creating: true) } catch {
            guard error.errno == ENOENT else { throw error }
            try createDirectory()
            return try openLocked(creating: true)
        }
    }

    /// Opens the file that the path names and locks it; also returns its size.
    private func openLocked(creating: Bool) throws(SystemError) -> (file: Descriptor, size: Int) {
        while true {
            let file = try OutputFile.shared(path, creates: creating, followsLinks: followsLinks)
            try checkKind(file.number)
            try lock(file.number)
            var mine = stat()
            var named = stat()
            guard fstat(file.number, &mine) == 0 else { throw failure("stat") }
            // Another session may have replaced the file between open and lock; its lock is worth nothing then.
            if stat(path, &named) == 0, mine.st_ino == named.st_ino, mine.st_dev == named.st_dev {
                if mine.st_mode & 0o077 != 0 { _ = fchmod(file.number, 0o600) }
                return (file, Int(mine.st_size))
            }
        }
    }

    private func lock(_ descriptor: Int32) throws(SystemError) {
        for attempt in 0... {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return }
            guard errno == EWOULDBLOCK || errno == EINTR else { throw failure("lock") }
            // A stopped process may hold the lock for hours; a prompt must not wait for it.
            guard attempt < Self.patience else { throw SystemError("lock", path, errno: EWOULDBLOCK) }
            usleep(1_000)
        }
    }

    /// Replaces the content of the file, whole or not at all. The file has to be locked. A link stays a link: the file at its end is
    /// replaced.
    private func replace(with bytes: [UInt8]) throws(SystemError) {
        let file = try OutputFile(replacing: path, followsLinks: followsLinks)
        let error = bytes.withUnsafeBytes { Descriptor.write($0, to: file.descriptor.number) }
        guard error == 0 else { throw SystemError("write", path, errno: error) }
        guard fsync(file.descriptor.number) == 0 else { throw failure("sync") }
        try file.putInPlace()
    }

    private func createDirectory() throws(SystemError) {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return }
        let directory = String(path[..<slash])
        guard !directory.isEmpty else { return }
        var end = directory.startIndex
        while end != directory.endIndex {
            end = directory[end...].dropFirst().firstIndex(of: "/") ?? directory.endIndex
            let part = String(directory[..<end])
            if mkdir(part, 0o700) != 0, errno != EEXIST { throw failure("mkdir", part) }
        }
    }
}
