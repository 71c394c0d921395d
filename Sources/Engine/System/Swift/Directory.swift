internal import CLinux
internal import Glibc

/// The contents of directories.
package enum Directory {
    package struct Entry: Equatable, Sendable {
        /// The bytes of the name, which need not be UTF-8.
        package let name: [UInt8]
        /// The kind of the entry itself: links are not followed.
        package let kind: Kind
    }

    package enum Kind: Sendable {
        case file, directory, link, other
    }

    /// Returns all entries except "." and "..", sorted by the bytes of their names. O(n log n).
    ///
    /// - Throws: ENOENT, ENOTDIR, EACCES and other errors of opendir(3) and readdir(3).
    package static func entries(of path: UnsafePointer<CChar>) throws(SystemError) -> [Entry] {
        guard let directory = opendir(path) else { throw SystemError("opendir", String(cString: path)) }
        defer { closedir(directory) }
        var entries: [Entry] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                let problem = errno
                guard problem == 0 else { throw SystemError("readdir", String(cString: path), errno: problem) }
                break
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in Array(bytes.prefix { $0 != 0 }) }
            if name == [UInt8(ascii: ".")] || name == [UInt8(ascii: "."), UInt8(ascii: ".")] { continue }
            entries.append(Entry(name: name, kind: kind(entry.pointee.d_type, directory, name)))
        }
        return entries.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    /// Returns the entries of an open directory.
    package static func entries(of directory: Descriptor) throws(SystemError) -> [Entry] {
        try entries(of: "/proc/self/fd/\(directory.number)")
    }

    /// Makes a directory that only this user can open, PREFIX-XXXXXX in $TMPDIR or /tmp. Returns its path.
    package static func makeTemporary(_ prefix: String) throws(SystemError) -> String {
        let base = ProcessEnvironment["TMPDIR"].flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8).map { CChar(bitPattern: $0) } + [0]
        guard mkdtemp(&template) != nil else { throw SystemError("mkdtemp", base) }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    // Some file systems do not report the kind with the entry.
    private static func kind(_ type: UInt8, _ directory: OpaquePointer, _ name: [UInt8]) -> Kind {
        switch Int32(type) {
        case Int32(DT_REG): return .file
        case Int32(DT_DIR): return .directory
        case Int32(DT_LNK): return .link
        case Int32(DT_UNKNOWN): break
        default: return .other
        }
        var status = stat()
        let path = name.map { CChar(bitPattern: $0) } + [0]
        guard fstatat(dirfd(directory), path, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return .other }
        return Kind(status.st_mode)
    }

    /// Returns the kind of the file at a path, and follows links.
    ///
    /// - Throws: ENOENT and other errors of stat(2).
    package static func kind(of path: UnsafePointer<CChar>) throws(SystemError) -> Kind {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemError("stat", String(cString: path)) }
        return Kind(status.st_mode)
    }

    /// Returns the text of a symbolic link; nil if the path is not a link.
    package static func target(ofLink path: UnsafePointer<CChar>) -> [UInt8]? {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink(path, &buffer, buffer.count)
        return count < 0 ? nil : buffer[..<count].map { UInt8(bitPattern: $0) }
    }
}

extension Directory.Kind {
    fileprivate init(_ mode: mode_t) {
        switch mode & S_IFMT {
        case S_IFREG: self = .file
        case S_IFDIR: self = .directory
        case S_IFLNK: self = .link
        default: self = .other
        }
    }
}
