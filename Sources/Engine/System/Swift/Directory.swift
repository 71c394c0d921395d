internal import CLinux
internal import Glibc

/// What is in a directory.
package enum Directory {
    package struct Entry: Equatable, Sendable {
        /// Its name's bytes, which need not be text.
        package let name: [UInt8]
        /// Of the entry itself: a link is a link, wherever it leads.
        package let kind: Kind
    }

    package enum Kind: Sendable {
        case file, directory, link, other
    }

    /// All entries but "." and "..", in order of their names' bytes. O(n log n).
    ///
    /// - Throws: ENOENT, ENOTDIR, EACCES and the like.
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

    /// The same of one that is open.
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

    // Not all file systems say it at once.
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

    /// What a path leads to, links followed.
    ///
    /// - Throws: ENOENT and the like.
    package static func kind(of path: UnsafePointer<CChar>) throws(SystemError) -> Kind {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemError("stat", String(cString: path)) }
        return Kind(status.st_mode)
    }

    /// What a symbolic link says; nil if it is none.
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
