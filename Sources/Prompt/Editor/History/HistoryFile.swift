internal import Glibc
public import Linux

/// A file of entries that several sessions append to at once.
///
/// To append, a session makes one `write` on a descriptor opened with `O_APPEND`, while it holds an exclusive `flock`
/// on the file. So no session appends to a file that another session is replacing. To shorten the file, a session
/// writes a new file and renames it over the old one. After locking, a session checks that the path still names the
/// locked file; if not, it starts again. A process may be killed at any moment; earlier entries stay complete. If a
/// process is killed during a `write`, the kernel may stop between two pages, which leaves an incomplete line. The next
/// append removes that line. If the file ends elsewhere without a line break, the user has edited it by hand, and the
/// next append adds the line break.
///
/// `flock` is not reliable on some network file systems; there, two sessions that shorten the file at the same time may
/// lose entries.
public struct HistoryFile: Sendable {
    /// The path of the file. The file and its directory need not exist.
    public let path: String

    /// The size in bytes of the longest entry that is written.
    public static let longestEntry = 1 << 20

    /// The number of bytes that are read from the end of a file of any size.
    static let longestRead = 64 << 20

    /// Milliseconds to wait for the lock before appending fails. A session holds the lock for less than one
    /// millisecond, unless its process was stopped.
    static let patience = 100

    private let followsLinks: Bool

    /// - Parameter followsLinks: Whether to follow links that the user owns, as when the user has chosen the path.
    public init(path: String, followsLinks: Bool = true) {
        self.path = path
        self.followsLinks = followsLinks
    }

    /// Reads all entries, the oldest first. Skips an entry that repeats the one before. A missing file has no entries.
    /// O(n).
    public func load() throws(SystemError) -> [String] { Self.entries(try contents()) }

    /// Appends one entry. If the file or its directory is missing, creates it with mode 0600 or 0700.
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
        // If the disk is full, the kernel may have stored a part of the line. Remove it: it would be read as an entry
        // that nobody typed.
        if written > 0 { _ = ftruncate(descriptor, off_t(end)) }
        throw SystemError("write", path, errno: error)
    }

    /// Shortens the file to its newest `limit` entries once it has a quarter more than that. Returns whether the file
    /// was shortened. O(n).
    @discardableResult
    public func compact(limit: Int) throws(SystemError) -> Bool {
        // Most files are short, and counting the lines needs no lock.
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

    /// Accepts regular files only: opening a pipe would block, and reading a device may never end.
    private func checkKind(_ descriptor: Int32) throws(SystemError) {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw failure("stat") }
        guard information.st_mode & S_IFMT == S_IFREG else {
            throw SystemError("open", path, errno: EINVAL, reason: "\(path) is not a regular file")
        }
    }

    /// Returns the number of bytes at the end of the file that are an incomplete line of a killed process: 0 unless the
    /// file ends at a page boundary.
    ///
    /// - Parameter bytes: The end of the file, or all of it.
    private static func remains(_ bytes: [UInt8], fileSize: Int) -> Int {
        guard fileSize % sysconf(Int32(_SC_PAGESIZE)) == 0 else { return 0 }
        let count = bytes.reversed().prefix { $0 != 0x0A }.count
        // This code never writes longer lines, so a longer line was written by hand.
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

    /// Removes such an incomplete line from the file. Returns its number of bytes. The file must be locked.
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

    // Returns the bytes to read; empty if there is no file.
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
        // The first line is incomplete, because its beginning was not read.
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
            // Another session may have replaced the file between open and lock. The lock then protects the old file
            // only.
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

    /// Replaces the content of the file, completely or not at all. The file must be locked. If the path is a link,
    /// replaces the file to which it leads.
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
