import Foundation
import Glibc
import Linux
import TestSupport
import Testing

/// Each way in which rlhost makes a file, with each obstacle that another user can put under its name.
@Suite("Files that rlhost writes", .timed)
struct OutputFileTests {
    /// The file under the name. `victim` is a file in the same directory, with the text "old" unless the link is
    /// dangling.
    enum Obstacle: String, CaseIterable, Sendable {
        case nothing, file, danglingLink, liveLink, loopingLink, linkOfAnother, danglingLinkOfAnother, pipe, directory
        case fileOfAnother, full
    }

    enum Kind: String, CaseIterable, Sendable {
        case new, privately, publicly, withoutLinks, appending, shared, sharedWithoutLinks
    }

    enum Outcome: Equatable {
        /// The name has a regular file of this user, with the new text alone or after the old one.
        case written
        /// The file at the end of the link has that text, and the link is still there.
        case writtenBehindLink
        /// The text is in the file with the next number, and the name is unchanged.
        case nextNumber
        /// The text was read from the pipe, or lost in the device.
        case passedOn
        case refused(Int32)
    }

    static let stranger: uid_t = 65534
    static let isRoot = geteuid() == 0

    static func expected(_ kind: Kind, _ obstacle: Obstacle) -> Outcome {
        switch (kind, obstacle) {
        case (_, .nothing): .written
        case (.new, _): .nextNumber
        case (_, .directory): .refused(EISDIR)
        case (.withoutLinks, _), (_, .file): .written
        // Root may write to a file of another user; but that user must not be able to read a private one.
        case (_, .fileOfAnother): .written
        case (.sharedWithoutLinks, .pipe), (.shared, .pipe): .passedOn
        case (.sharedWithoutLinks, _): .refused(ELOOP)
        case (_, .loopingLink): .refused(ELOOP)
        case (_, .danglingLink), (_, .liveLink): .writtenBehindLink
        case (_, .linkOfAnother), (_, .danglingLinkOfAnother): .refused(EACCES)
        case (.shared, .full), (_, .full): .refused(ENOSPC)
        case (_, .pipe): .passedOn
        }
    }

    @Test(
        "each kind of file is made or refused with each obstacle under its name", arguments: Kind.allCases,
        Obstacle.allCases)
    func table(_ kind: Kind, _ obstacle: Obstacle) throws {
        guard Self.isRoot || !obstacle.rawValue.hasSuffix("OfAnother") else { return }
        var template = Array("/tmp/rlhost-output-XXXXXX".utf8CString)
        let directory = String(cString: try #require(mkdtemp(&template) as UnsafeMutablePointer<CChar>?))
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = "\(directory)/name.txt"
        let victim = "\(directory)/victim"
        let reader = try prepare(obstacle, path, victim)
        defer { if reader >= 0 { close(reader) } }
        let outcome = try write(kind, directory, path, victim, reader)
        #expect(outcome == Self.expected(kind, obstacle), "\(kind) \(obstacle)")
        switch outcome {
        case .writtenBehindLink: break
        default:
            let isThere = FileManager.default.fileExists(atPath: victim)
            #expect(isThere == [.liveLink, .linkOfAnother].contains(obstacle), "\(kind) \(obstacle)")
            if isThere { #expect(try String(contentsOfFile: victim, encoding: .utf8) == "old") }
        }
        let rest = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(".new") }
        #expect(rest.isEmpty, "\(kind) \(obstacle)")
    }

    /// Returns the reading end of a pipe, or -1.
    private func prepare(_ obstacle: Obstacle, _ path: String, _ victim: String) throws -> Int32 {
        let old = Data("old".utf8)
        switch obstacle {
        case .nothing: break
        case .file, .fileOfAnother: try old.write(to: URL(fileURLWithPath: path))
        case .liveLink, .linkOfAnother:
            try old.write(to: URL(fileURLWithPath: victim))
            #expect(symlink("victim", path) == 0)
        case .danglingLink, .danglingLinkOfAnother: #expect(symlink("victim", path) == 0)
        case .loopingLink: #expect(symlink("name.txt", path) == 0)
        case .full: #expect(symlink("/dev/full", path) == 0)
        case .directory: #expect(mkdir(path, 0o700) == 0)
        case .pipe:
            #expect(mkfifo(path, 0o600) == 0)
            return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        }
        if obstacle.rawValue.hasSuffix("OfAnother") { #expect(lchown(path, Self.stranger, Self.stranger) == 0) }
        return -1
    }

    private func write(
        _ kind: Kind, _ directory: String, _ path: String, _ victim: String, _ reader: Int32
    ) throws -> Outcome {
        let text = Array("new".utf8)
        var name = path
        do throws(SystemError) {
            switch kind {
            case .new:
                let file = try OutputFile(stem: "\(directory)/name", ending: ".txt")
                try put(text, file.descriptor)
                name = file.path
            case .privately: try OutputFile.write(text, to: path, followsLinks: true)
            case .publicly: try OutputFile.write(text, to: path, mode: 0o666, followsLinks: true)
            case .withoutLinks: try OutputFile.write(text, to: path, followsLinks: false)
            case .appending: try put(text, try OutputFile.appending(to: path, named: path, mode: 0o640))
            case .shared: try put(text, try OutputFile.shared(path, creates: true, followsLinks: true))
            case .sharedWithoutLinks: try put(text, try OutputFile.shared(path, creates: true, followsLinks: false))
            }
        } catch { return .refused(error.errno) }
        if reader >= 0, name == path {
            var bytes = [UInt8](repeating: 0, count: 8)
            if read(reader, &bytes, 8) == 3 { return .passedOn }
        }
        var status = stat()
        #expect(lstat(name, &status) == 0)
        let isLink = status.st_mode & S_IFMT == S_IFLNK
        if isLink { #expect(stat(name, &status) == 0) }
        #expect(try String(contentsOfFile: name, encoding: .utf8).hasSuffix("new"))
        if ![.appending, .publicly].contains(kind), ![.shared, .sharedWithoutLinks].contains(kind) {
            #expect(status.st_mode & 0o777 == 0o600 && status.st_uid == geteuid(), "\(kind)")
        }
        return name != path ? .nextNumber : isLink ? .writtenBehindLink : .written
    }

    private func put(_ bytes: [UInt8], _ file: Descriptor) throws(SystemError) {
        let error = bytes.withUnsafeBytes { Descriptor.write($0, to: file.number) }
        guard error == 0 else { throw SystemError("write", errno: error) }
    }

    @Test("an error names the owner of the link, and a missing directory has the error of open(2)") func texts() throws
    {
        var template = Array("/tmp/rlhost-output-XXXXXX".utf8CString)
        let directory = String(cString: try #require(mkdtemp(&template) as UnsafeMutablePointer<CChar>?))
        defer { try? FileManager.default.removeItem(atPath: directory) }
        #expect(throws: SystemError("create", "/nonexistent/x", errno: ENOENT)) {
            try OutputFile(replacing: "/nonexistent/x")
        }
        #expect(throws: SystemError("create", "/", errno: EISDIR)) { try OutputFile(replacing: "/") }
        #expect(throws: SystemError("create", "", errno: ENOENT)) { try OutputFile(replacing: "") }
        guard Self.isRoot else { return }
        let path = "\(directory)/link"
        #expect(symlink("victim", path) == 0 && lchown(path, Self.stranger, Self.stranger) == 0)
        let reason = "a symbolic link of user 65534 is not followed (\(path))"
        #expect(throws: SystemError("create", path, errno: EACCES, reason: reason)) { try OutputFile(replacing: path) }
    }

    @Test("a pipe that no program reads is refused after two seconds, and one that is read later is written to")
    func pipes() throws {
        var template = Array("/tmp/rlhost-output-XXXXXX".utf8CString)
        let directory = String(cString: try #require(mkdtemp(&template) as UnsafeMutablePointer<CChar>?))
        defer { try? FileManager.default.removeItem(atPath: directory) }
        for isRead in [false, true] {
            let path = "\(directory)/\(isRead)"
            #expect(mkfifo(path, 0o600) == 0)
            for appends in [false, true] {
                let reader = isRead ? Process() : nil
                reader?.executableURL = URL(fileURLWithPath: "/bin/sh")
                reader?.arguments = ["-c", "sleep 0.2; exec cat '\(path)' >'\(path).read'"]
                try reader?.run()
                var refusal: SystemError?
                do throws(SystemError) {
                    if appends {
                        try put(Array("new".utf8), try OutputFile.appending(to: path, named: path, mode: 0o640))
                    } else {
                        try OutputFile.write(Array("new".utf8), to: path, followsLinks: true)
                    }
                } catch { refusal = error }
                reader?.waitUntilExit()
                #expect(refusal?.errno == (isRead ? nil : ENXIO))
                #expect(refusal.map { "\($0)" } == (isRead ? nil : "ENXIO: no program reads the pipe \(path)"))
                if isRead { #expect(try String(contentsOfFile: path + ".read", encoding: .utf8) == "new") }
            }
        }
    }

    @Test("a handle of /proc is written to, whatever file it is") func handles() throws {
        let (reading, writing) = try Descriptor.pair()
        let file = try OutputFile(replacing: "/proc/self/fd/\(writing.number)", mode: 0o666)
        #expect(!file.replaces)
        try put([1, 2, 3], file.descriptor)
        #expect(Descriptor.readable(reading.number) == 3)
        _ = try OutputFile(replacing: "/dev/null", mode: 0o600)
    }

    @Test("the old file stays until putInPlace") func lateReplacement() throws {
        var template = Array("/tmp/rlhost-output-XXXXXX".utf8CString)
        let directory = String(cString: try #require(mkdtemp(&template) as UnsafeMutablePointer<CChar>?))
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = "\(directory)/file"
        try Data("old".utf8).write(to: URL(fileURLWithPath: path))
        #expect(chmod(path, 0o644) == 0)
        do {
            let file = try OutputFile(replacing: path, mode: 0o666)
            try put(Array("new".utf8), file.descriptor)
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["file"])
        let file = try OutputFile(replacing: path, mode: 0o666)
        try put(Array("new".utf8), file.descriptor)
        try file.putInPlace()
        try file.putInPlace()
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "new")
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o644)
    }
}

@Suite("Text that is safe to show", .timed)
struct ShownTextTests {
    @Test("the text neither commands a terminal nor reverses text") func shown() {
        let text = "a\u{1B}[2J\u{9B}2Jb\u{202E}c\u{200F}d\u{2066}e\u{7F}\u{85}\u{2028}\u{61C}é日\u{200D}\r\n\t\0"
        let escaped =
            #"a\x1b[2J\xc2\x9b2Jb\xe2\x80\xaec\xe2\x80\x8fd\xe2\x81\xa6e\x7f\xc2\x85\xe2\x80\xa8\xd8\x9cé日"#
            + "\u{200D}"
        #expect(text.shown == escaped + "\\r\n\t\\x00")
        #expect(text.shownInLine == escaped + #"\r\n\t\x00"#)
        #expect("plain text".shown == "plain text")
        // A byte that is not UTF-8, in the form of the module Lua.
        #expect("a\u{10FF9B}b".shown == #"a\x9bb"#)
    }
}
