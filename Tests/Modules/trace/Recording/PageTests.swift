import Foundation
import TestSupport
import Testing

@testable import Tracing
import RunLoops

/// The page in a real browser: its contents, and the effects of keys and clicks. The tests themselves are in
/// Page/page_test.py.
@Suite(
    "The page of a recording", .timed, .enabled(if: Chromium.isThere, "there is no chromium: scripts/test installs it"))
struct PageTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Page")

    @Test("the page's tests pass in headless Chromium")
    func browser() throws {
        let path = "/tmp/page-\(getpid())"
        let files = ["known", "odd", "cut", "long", "ends", "joined"].map { "\(path)-\($0).html" }
        defer { files.forEach { unlink($0) } }
        try Self.known(files[0])
        try Self.odd(files[1])
        let bytes = try Sample.bytes(of: files[0])
        try Sample.put(bytes.dropLast(250), files[2])
        try Self.long(files[3])
        try Sample.ends(files[4])
        try Sample.joined(files[5])
        let script = Self.folder.appending(path: "page_test.py").path
        let result = try Reader.call([script] + files)
        let stories = result.output.split(separator: "\n")
        for story in stories { #expect(story.hasPrefix("ok "), "\(story)") }
        #expect(result.status == 0)
        let told = try String(contentsOf: URL(filePath: script), encoding: .utf8).split(separator: "@test(").count - 1
        #expect(stories.count == told, "\(result.output)")
    }

    /// A tenth of a second: `poll` is due each 10 ms, `save` holds the loop from 20 to 50 ms, and `poll` runs a
    /// dialogue from 61 to 79.
    private static func known(_ path: String) throws {
        let writer = try Recording.Writer(path: path, about: .init(title: "app.lua", process: 7))
        try writer.thread(0, "main")
        try writer.thread(1, "worker")
        let names: [Recording.Name] = [
            .init(kind: .other, text: "default"), .init(kind: .timer, text: "timer \"poll\"", place: "app.lua:12"),
            .init(kind: .timer, text: "timer \"save\"", place: "app.lua:14"), .init(kind: .other, text: "modal"),
            .init(kind: .port, text: "port \"keyboard\"", place: "app.lua:30"),
            .init(kind: .request, text: "request", place: "app.lua:33"), .init(kind: .other, text: "perform"),
            .init(kind: .observer, text: "observer \"redraw\"", place: "app.lua:40"),
            .init(kind: .stream, text: "connection to example", place: "app.lua:50"),
            .init(kind: .http, text: "GET /poll"), .init(kind: .other, text: "thread main · perform"),
            .init(kind: .other, text: "stream:read"), .init(kind: .data, text: "query \"select 1\" of postgres \"a\""),
        ]
        for (index, name) in names.enumerated() { try writer.name(UInt32(index + 1), name) }
        func at(_ ms: Double) -> UInt64 { 9_000_000_000_000_000 + UInt64(ms * 1_000_000) }
        func record(
            _ ms: Double, _ kind: Recording.Record.Kind, _ object: UInt32 = 0, a: UInt64 = 0, flags: UInt8 = 0,
            flow: UInt32 = 0, task: UInt32 = 0, thread: UInt16 = 0
        ) -> Recording.Record {
            .init(time: at(ms), kind: kind, flags: flags, thread: thread, object: object, a: a, flow: flow, task: task)
        }
        let main = [
            record(0, .run, 1), record(0, .pass, 1), record(0.001, .step, a: 2), record(0.002, .begin, 8),
            record(0.005, .end, 8),
            record(0.006, .opens, 9, flow: 1),
            record(0.01, .sleep, a: at(10)), record(10, .wake, 2, a: 1), record(10, .begin, 2, a: at(10)),
            record(11, .end, 2), record(11, .passEnd), record(11, .pass, 1), record(11.1, .sleep, a: at(20)),
            record(20, .wake, 3, a: 1), record(20, .begin, 3, a: at(20)), record(50, .end, 3), record(50, .passEnd),
            record(50, .pass, 1), record(50.5, .begin, 2, a: at(20)), record(50.6, .opens, 10, flow: 2),
            record(51, .out, 7, flow: 4), record(51, .bytes, 9, a: 4096, flags: 1, flow: 1),
            record(51.5, .opens, 13, flow: 3), record(55.5, .end, 2, a: 3), record(55.5, .passEnd),
            record(55.5, .pass, 1), record(55.6, .sleep, a: at(60)), record(60, .wake, 2, a: 1),
            record(60, .begin, 2, a: at(60)), record(60.5, .closes, 13, a: 1500 << 32 | 42, flow: 3),
            record(61, .run, 4), record(61, .pass, 4), record(61.1, .sleep),
            record(73, .wake, 5, a: 2), record(73, .begin, 5), record(77, .closes, 10, a: 503, flags: 2, flow: 2),
            record(78, .end, 5), record(78.9, .passEnd),
            record(79, .runEnd, 4, a: 2), record(79, .end, 2, a: 1), record(79, .passEnd), record(79, .pass, 1),
            record(80.2, .begin, 2, a: at(70)), record(81.2, .end, 2), record(81.3, .sleep),
            record(100, .wake, a: 5), record(100, .passEnd), record(100, .runEnd, 1, a: 3),
        ]
        let worker = [
            record(0, .run, 1, thread: 1), record(0, .pass, thread: 1), record(0.1, .sleep, thread: 1),
            record(56.9, .wake, 11, a: 3, flow: 4, thread: 1), record(57, .begin, 6, flow: 4, task: 1, thread: 1),
            record(60, .end, 6, flags: 1, flow: 12, thread: 1), record(60, .passEnd, thread: 1),
            record(60, .pass, thread: 1),
            record(60.1, .sleep, thread: 1), record(62, .wake, a: 2, thread: 1),
            record(62, .begin, 6, task: 1, thread: 1),
            record(63, .end, 6, thread: 1), record(63, .passEnd, thread: 1), record(63, .pass, thread: 1),
            record(63.1, .sleep, thread: 1),
        ]
        for records in [main, worker] { try records.withUnsafeBytes { try writer.write($0) } }
        try writer.finish()
    }

    /// In each of two loops, a timer fires every millisecond. The loops are written one after the other, in many
    /// chunks. In one chunk, the time goes back.
    private static func long(_ path: String) throws {
        let writer = try Recording.Writer(path: path, about: .init(title: "long", process: 7))
        try writer.name(1, .init(kind: .timer, text: "timer \"tick\"", place: "app.lua:1"))
        let start: UInt64 = 9_000_000_000_000_000
        for thread in UInt16(0)..<2 {
            var records: [Recording.Record] = []
            for tick in UInt64(1)...12_000 {
                let time = start + tick * 1_000_000
                records.append(.init(time: time, kind: .wake, thread: thread, object: 1, a: 1))
                records.append(.init(time: time, kind: .begin, thread: thread, object: 1, a: time))
                records.append(.init(time: time + tick, kind: .end, thread: thread, object: 1, a: tick))
                records.append(.init(time: time + tick, kind: .sleep, thread: thread))
            }
            try records.withUnsafeBytes { try writer.write($0) }
        }
        try writer.finish()
    }

    /// Names like markup, nested slices that are reported from inside, and lost records.
    private static func odd(_ path: String) throws {
        let writer = try Recording.Writer(
            path: path, about: .init(title: "<img src=x onerror=fail()>", process: 7, dropped: 17))
        try writer.name(1, .init(kind: .span, text: "</script><b>\u{2028}\"\\", place: "<i>"))
        try writer.name(2, .init(kind: .span, text: "load", place: "app.lua:7"))
        try writer.name(3, .init(kind: .other, text: "rl.sleep"))
        let records: [Recording.Record] = [
            .init(time: 30, kind: .whole, object: 1, a: 5), .init(time: 20, kind: .whole, object: 1, a: 20),
            .init(time: 50, kind: .whole, object: 1, a: 5), .init(time: 10, kind: .whole, object: 1, a: 90),
            // A span whose task waits in it, and a span without a wait.
            .init(time: 10, kind: .begin, thread: 1, object: 2, task: 9),
            .init(time: 12, kind: .end, flags: 1, thread: 1, object: 2, flow: 3),
            .init(time: 80, kind: .whole, thread: 1, object: 2, a: 4, task: 9),
            .init(time: 90, kind: .whole, thread: 1, object: 2, a: 4, task: 9),
        ]
        try records.withUnsafeBytes { try writer.write($0) }
        try writer.finish()
    }
}

enum Chromium {
    /// In CI no test may be skipped, so a missing Chromium is a failure there.
    static let isThere =
        ProcessInfo.processInfo.environment["CI"] != nil
        || ["chromium", "chromium-browser", "google-chrome"].contains { access("/usr/bin/\($0)", X_OK) == 0 }
}
