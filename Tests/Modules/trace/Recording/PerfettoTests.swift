import Foundation
import TestSupport
import Testing

@testable import Tracing
import RunLoops

/// An independent program reads the files. The program uses no code of this project.
@Suite(
    "Perfetto's format", .timed, .enabled(if: Reader.isThere, "there is no python3-protobuf: scripts/test installs it"))
struct PerfettoTests {
    @Test("an independent reader finds the content of the JSON form, including arrows")
    func comparison() throws {
        let path = "/tmp/perfetto-\(getpid())"
        defer { for ending in ["pftrace", "json"] { unlink("\(path).\(ending)") } }
        for ending in ["pftrace", "json"] {
            try Sample.write(Recording.Writer(path: "\(path).\(ending)", about: Sample.about))
        }
        let output = try Reader.run(["\(path).pftrace", "\(path).json"])
        #expect(
            output == """
                4711 main -> 4711 worker "é": perform -> request
                4711 main -> 4711 worker "é": perform -> received
                40 events, 2 arrows

                """)
    }

    @Test("concatenated files of two processes have arrows between them")
    func processes() throws {
        let paths = [11, 22].map { "/tmp/perfetto-\(getpid())-\($0).pftrace" }
        defer { paths.forEach { unlink($0) } }
        for (path, process) in zip(paths, [Int32(11), 22]) {
            let writer = try Recording.Writer(path: path, about: .init(title: "p.lua", process: process))
            try writer.thread(0, "main")
            try writer.name(1, .init(kind: .message, text: "message to p\(process)", place: "p.lua:1"))
            let record = Recording.Record(time: 6, kind: process == 11 ? .out : .in, object: 1, flow: 0xFFFF_FFFE)
            try withUnsafeBytes(of: record) { try writer.write($0) }
            try writer.finish()
        }
        #expect(try Reader.run(paths) == "11 main -> 22 main: message to p11 -> received\n2 events, 1 arrows\n")
    }
}

enum Reader {
    /// Debian's Python, since the needed modules are Debian packages.
    private static let python = "/usr/bin/python3"

    static let isThere: Bool = {
        // In CI no test may be skipped, so a missing reader is a failure there.
        if ProcessInfo.processInfo.environment["CI"] != nil { return true }
        return (try? call(["-c", "import google.protobuf"]).status) == 0
    }()

    static func run(_ paths: [String]) throws -> String {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Reader/perfetto.py").path
        let result = try call([script] + paths)
        #expect(result.status == 0, "\(result.output)")
        return result.output
    }

    static func call(_ arguments: [String]) throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: data, as: UTF8.self))
    }
}
