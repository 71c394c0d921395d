import Foundation

/// The files of the project, as git knows them; or, where there is no git, as they lie there.
enum Tree {
    static let root: URL = {
        // Tests/TidyTests/Tree.swift
        let file = URL(filePath: #filePath)
        return file.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    }()

    /// Paths from the root: tracked files, and new ones that git does not ignore.
    static let files: [String] = {
        let found = git(["ls-files", "--cached", "--others", "--exclude-standard"]) ?? walk()
        return Set(found).filter { exists($0) }.sorted()
    }()

    static func files(under folder: String, _ extensions: String...) -> [String] {
        files.filter { path in
            path.hasPrefix(folder + "/")
                && (extensions.isEmpty || extensions.contains(where: { path.hasSuffix("." + $0) }))
        }
    }

    /// Those that are text, which is all but pictures and archives.
    static var texts: [String] { files.filter { !["png", "ico", "gz"].contains(URL(filePath: $0).pathExtension) } }

    static func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: url(path).path) }

    static func url(_ path: String) -> URL { root.appending(path: path) }

    static func text(_ path: String) throws -> String { try String(contentsOf: url(path), encoding: .utf8) }

    static func lines(_ path: String) throws -> [String] { try text(path).components(separatedBy: "\n") }

    private static func git(_ arguments: [String]) -> [String]? {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["git", "-C", root.path] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return nil }
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { return nil }
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private static func walk() -> [String] {
        let all = FileManager.default.enumerator(atPath: root.path)?.compactMap { $0 as? String } ?? []
        return all.filter { path in
            !path.hasPrefix(".build") && !path.hasPrefix(".git/")
                && (try? url(path).resourceValues(forKeys: [.isRegularFileKey]).isRegularFile) == true
        }
    }
}
