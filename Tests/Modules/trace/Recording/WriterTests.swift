import Glibc
import Linux
import TestSupport
import Testing

@testable import Tracing
import RunLoops

@Suite("Writing recordings", .timed)
struct WriterTests {
    @Test("a record has the 32 bytes that the format defines")
    func layout() {
        #expect(MemoryLayout<Recording.Record>.stride == Recording.Record.size)
        let record = Recording.Record(
            time: 0x0102_0304_0506_0708, kind: .wake, flags: 9, thread: 0x1011, object: 0x1213_1415,
            a: 0x1617_1819_1a1b_1c1d,
            flow: 0x1e1f_2021, task: 0x2223_2425)
        withUnsafeBytes(of: record) { bytes in
            #expect(
                Array(bytes) == [
                    8, 7, 6, 5, 4, 3, 2, 1, 8, 9, 0x11, 0x10, 0x15, 0x14, 0x13, 0x12, 0x1d, 0x1c, 0x1b, 0x1a, 0x19,
                    0x18, 0x17,
                    0x16, 0x21, 0x20, 0x1f, 0x1e, 0x25, 0x24, 0x23, 0x22,
                ])
            #expect(Recording.Record(bytes, at: 0) == record)
        }
    }

    @Test("another ending is refused with an error that names the valid ones")
    func ending() {
        #expect {
            try Recording.Writer(path: "/tmp/recording.txt", about: Sample.about)
        } throws: { error in
            "\(error)" == "EINVAL: a recording's file ends in .html, .pftrace or .json, not as '/tmp/recording.txt'"
        }
        #expect(access("/tmp/recording.txt", F_OK) != 0)
    }

    @Test(
        "a file that cannot be made, and a full disk, give errors with the path",
        arguments: ["html", "pftrace", "json"])
    func refusals(ending: String) throws {
        let path = "/nowhere/a.\(ending)"
        #expect {
            try Recording.Writer(path: path, about: Sample.about)
        } throws: { "\($0)" == "ENOENT: no such file or directory (\(path))" }
        let full = try Descriptor(open("/dev/full", O_WRONLY), "open")
        let format = try #require(Recording.Format(path: path))
        #expect {
            try Sample.write(Recording.Writer(full, path: "/dev/full", format: format, about: Sample.about))
        } throws: { "\($0)" == "ENOSPC: no space left on device (/dev/full)" }
    }

    @Test("only its owner can read a recording")
    func mode() throws {
        _ = try Sample.inFile("html") { path in
            try Sample.put([1], path)
            #expect(chmod(path, 0o666) == 0)
            try Recording.Writer(path: path, about: Sample.about).finish()
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }

    @Test(
        "a file never exceeds its limit, and has the number of missing records", arguments: ["html", "pftrace", "json"])
    func limit(ending: String) throws {
        let bytes = try Sample.inFile(ending) { path in
            let writer = try Recording.Writer(path: path, about: Sample.about, limit: 1)
            let least = Recording.Writer.leastLimit
            var generator = SystemRandomNumberGenerator()
            while !writer.isFull {
                // Random, so that it cannot be compressed.
                let records = (0..<500).map { _ in
                    Recording.Record(
                        time: generator.next(), kind: .mark, object: 2, a: generator.next(),
                        flow: UInt32.random(in: 0...UInt32.max))
                }
                try records.withUnsafeBytes { try writer.write($0) }
            }
            try Sample.write(writer)
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_size <= least && status.st_size > least / 2)
        }
        #expect(bytes.count <= Recording.Writer.leastLimit)
        if ending == "json" { #expect(String(decoding: bytes.suffix(100), as: UTF8.self).contains("\"lost\":")) }
    }

    @Test("records in large pieces cost no more than in small ones", arguments: ["html", "pftrace", "json"])
    func pieces(ending: String) throws {
        let marks = (1...32_768).map {
            Recording.Record(time: $0 * 1000, kind: .begin, object: 2, a: $0 * 900, task: 9)
        }
        func time(_ size: Int) throws -> Double {
            var time = 0.0
            _ = try Sample.inFile(ending) { path in
                let writer = try Recording.Writer(path: path, about: Sample.about)
                try writer.name(2, .init(kind: .timer, text: String(repeating: "long", count: 100)))
                let start = threadTime()
                try marks.withUnsafeBytes { marks in
                    for offset in stride(from: 0, to: marks.count, by: size) {
                        try writer.write(UnsafeRawBufferPointer(rebasing: marks[offset..<(offset + size)]))
                        try writer.flush()
                    }
                }
                time = threadTime() - start
                try writer.finish()
            }
            return time
        }
        #expect(try time(1 << 17) < 3 * time(1 << 12))
    }

    @Test("events are lines of JSON with exact times")
    func events() throws {
        let lines = String(decoding: try Sample.file("json"), as: UTF8.self).split(separator: "\n").map(String.init)
        #expect(lines.first == "[" && lines.last == "]")
        let due = #""args":{"due_us":5000001008.123,"late_us":3000.000,"made at":"app.lua:12"}},"#
        #expect(
            lines.contains(
                #"{"ph":"B","pid":4711,"tid":0,"ts":5000004008.123,"cat":"timer","name":"timer \"poll\"","# + due))
        // The reason of a wake-up and the result of a run, in words.
        let wake = #"{"ph":"E","pid":4711,"tid":0,"ts":5000004007.123,"args":{"reason":"timer","woken by":"timer"#
        #expect(lines.contains { $0.hasPrefix(wake) })
        #expect(lines.contains { $0.contains(#""args":{"until_us":5000001007.123}}"#) })
        for word in ["stopped", "finished", "timed_out"] {
            #expect(lines.contains { $0.hasSuffix(#""args":{"result":""# + word + #""}},"#) })
        }
        #expect(lines.contains { $0.contains(#""ph":"s""#) && $0.contains(#""id":77"#) })
        #expect(lines.contains { $0.contains(#""ph":"f""#) && $0.contains(#""id":77"#) })
    }
}
