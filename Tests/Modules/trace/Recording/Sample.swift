import Glibc
import Linux

@testable import Tracing
import RunLoops

/// A known recording that is given to a writer, and the contents of its file.
struct Sample {
    static let about = Recording.About(title: "app.lua", process: 4711)
    static let names: [UInt32: Recording.Name] = [
        1: .init(kind: .other, text: "default"), 2: .init(kind: .timer, text: "timer \"poll\"", place: "app.lua:12"),
        3: .init(kind: .port, text: "port \"inbox\"", place: "app.lua:20"),
        4: .init(kind: .other, text: "perform"), 5: .init(kind: .other, text: "modal"),
        6: .init(kind: .request, text: "request", place: "app.lua:33"),
        7: .init(kind: .span, text: "load\n\\", place: "app.lua:40"),
        11: .init(kind: .other, text: "stream:read"), 10: .init(kind: .http, text: "GET /poll", place: "app.lua:60"),
        8: .init(kind: .stream, text: "stream"), 9: .init(kind: .observer, text: "observer", place: "app.lua:50"),
    ]

    /// Two loops. A timer of the first loop is 3 ms late and misses two intervals. In a nested run, the timer's
    /// callback sends a request to the other loop. A connection lasts longer than all these events; a request of the
    /// other loop has the same number as the connection.
    static let records: [Recording.Record] = {
        let ms: UInt64 = 1_000_000
        var t: UInt64 = 5_000_000_000_123
        func at(_ later: UInt64 = 1000) -> UInt64 {
            t += later
            return t
        }
        return [
            .init(time: at(), kind: .run, thread: 0, object: 1), .init(time: at(), kind: .run, thread: 1, object: 1),
            .init(time: at(), kind: .pass, thread: 0, object: 1),
            .init(time: at(), kind: .step, thread: 0, a: 2),
            .init(time: at(), kind: .begin, thread: 0, object: 9), .init(time: at(), kind: .end, thread: 0, object: 9),
            .init(time: at(), kind: .sleep, thread: 0, a: t + ms),
            .init(time: at(4 * ms), kind: .wake, thread: 0, object: 2, a: 1),
            .init(time: at(), kind: .begin, thread: 0, object: 2, a: t - 3 * ms),
            .init(time: at(), kind: .run, thread: 0, object: 5), .init(time: at(), kind: .pass, thread: 0, object: 5),
            .init(time: at(), kind: .sleep, thread: 0), .init(time: at(), kind: .wake, thread: 0, object: 3, a: 2),
            .init(time: at(), kind: .begin, thread: 0, object: 3),
            .init(time: at(), kind: .bytes, flags: 1, thread: 0, object: 8, a: 4096),
            .init(time: at(), kind: .opens, thread: 0, object: 8, flow: 5),
            .init(time: at(), kind: .bytes, thread: 0, object: 8, a: 17, flow: 5),
            .init(time: at(), kind: .out, thread: 0, object: 4, flow: 77),
            .init(time: at(), kind: .end, flags: 2, thread: 0, object: 3),
            .init(time: at(), kind: .passEnd, thread: 0, object: 5),
            .init(time: at(), kind: .runEnd, thread: 0, object: 5, a: 2),
            .init(time: at(), kind: .whole, thread: 0, object: 7, a: 500),
            .init(time: at(), kind: .mark, thread: 0, object: 7),
            .init(time: at(), kind: .end, thread: 0, object: 2, a: 2),
            .init(time: at(), kind: .passEnd, thread: 0, object: 1),
            .init(time: at(), kind: .closes, flags: 2, thread: 0, object: 8, flow: 5),
            .init(time: at(), kind: .opens, thread: 1, object: 10, flow: 5),
            .init(time: at(), kind: .closes, thread: 1, object: 10, a: 204, flow: 5),
            .init(time: at(), kind: .pass, thread: 1, object: 1), .init(time: at(), kind: .sleep, thread: 1),
            .init(time: at(), kind: .wake, thread: 1, object: 6, a: 3, flow: 77),
            .init(time: at(), kind: .begin, thread: 1, object: 6, flow: 77, task: 9),
            .init(time: at(), kind: .in, thread: 1, flow: 77),
            .init(time: at(), kind: .end, flags: 1, thread: 1, object: 6, flow: 11),
            .init(time: at(), kind: .begin, thread: 1, object: 6, task: 9),
            .init(time: at(), kind: .end, flags: 1, thread: 1, object: 6),
            .init(time: at(), kind: .passEnd, thread: 1, object: 1),
            .init(time: at(), kind: .runEnd, thread: 1, object: 1, a: 1),
            .init(time: at(), kind: .runEnd, thread: 0, object: 1, a: 3),
        ]
    }()

    static func write(_ writer: Recording.Writer) throws {
        try writer.thread(0, "main")
        try writer.thread(1, "worker \"é\"")
        for (number, name) in names.sorted(by: { $0.key < $1.key }) { try writer.name(number, name) }
        try records.withUnsafeBytes { try writer.write($0) }
        try writer.finish()
    }

    /// Two processes on two machines. Their process numbers are equal, and their clocks differ by two days. The first
    /// process asks at 10 ms, the other one answers from 12 to 14 ms, and the answer arrives at 16 ms. A third process
    /// has no messages.
    static func joined(_ path: String) throws {
        let day: UInt64 = 86_400_000_000_000, ms: UInt64 = 1_000_000
        let asked: UInt64 = 1 << 32 | 7, answered: UInt64 = 2 << 32 | 7
        func origin(_ number: UInt64) -> Recording.Origin {
            .init(identity: UInt32(number), machine: 100 + number, host: "m\(number)", zero: 10 * day)
        }
        func arrival(_ time: UInt64, _ message: UInt64) -> Recording.Record {
            .init(time: time, kind: .arrives, object: 2, a: message)
        }
        let parts: [(UInt64, [Recording.Record])] = [
            (
                1,
                [
                    .init(time: day, kind: .run, object: 1), .init(time: day + 10 * ms, kind: .begin, object: 3),
                    .init(time: day + 10 * ms, kind: .opens, object: 2, flow: 5),
                    .init(time: day + 10 * ms, kind: .departs, object: 2, a: asked),
                    .init(time: day + 11 * ms, kind: .end, object: 3),
                    .init(time: day + 16 * ms, kind: .begin, object: 4),
                    arrival(day + 16 * ms, answered), .init(time: day + 16 * ms, kind: .closes, object: 2, flow: 5),
                    .init(time: day + 17 * ms, kind: .end, object: 4),
                    .init(time: day + 20 * ms, kind: .runEnd, object: 1),
                ]
            ),
            (
                2,
                [
                    .init(time: 3 * day, kind: .run, object: 1),
                    .init(time: 3 * day + 12 * ms, kind: .begin, object: 4),
                    arrival(3 * day + 12 * ms, asked),
                    .init(time: 3 * day + 14 * ms, kind: .departs, object: 2, a: answered),
                    .init(time: 3 * day + 14 * ms, kind: .end, object: 4),
                    .init(time: 3 * day + 20 * ms, kind: .runEnd, object: 1),
                ]
            ),
            (3, [.init(time: 5 * ms, kind: .run, object: 1), .init(time: 25 * ms, kind: .runEnd, object: 1)]),
        ]
        var files: [String] = []
        defer { files.forEach { unlink($0) } }
        for (number, records) in parts {
            files.append("\(path)-\(number).pftrace")
            let about = Recording.About(title: "p\(number).lua", process: 7, origin: origin(number))
            let writer = try Recording.Writer(path: files[files.count - 1], about: about)
            try writer.thread(0, "main")
            try writer.name(1, .init(kind: .other, text: "default"))
            try writer.name(2, .init(kind: .nats, text: "thumbs.small"))
            try writer.name(3, .init(kind: .timer, text: "timer", place: "p.lua:1"))
            try writer.name(4, .init(kind: .task, text: "task", place: "p.lua:2"))
            try records.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        }
        try Recording.Conversion.convert(files, to: path)
    }

    /// Events of a tenth of a second: `worker` ends after 10 ms. `late` waits for a callback of 30 ms that had no
    /// processor for 29 ms. Three requests belong to one route, and four requests of a client have paths with numbers.
    static func ends(_ path: String) throws {
        let writer = try Recording.Writer(path: path, about: about)
        try writer.thread(0, "main")
        try writer.thread(1, "worker")
        let names: [Recording.Name] = [
            .init(kind: .other, text: "default"), .init(kind: .timer, text: "timer \"short\""),
            .init(kind: .timer, text: "timer \"late\""), .init(kind: .http, text: "GET /item/:id"),
            .init(kind: .http, text: "GET /item/1"), .init(kind: .http, text: "GET /item/2"),
            .init(kind: .http, text: "GET /item/3"), .init(kind: .http, text: "GET http://1.2.3.4:80/v1/item/17"),
            .init(kind: .http, text: "GET http://1.2.3.4:80/v1/item/0a1b2c3d-1111-2222-3333-444455556666"),
            .init(kind: .http, text: "GET http://1.2.3.4:80/v1/item/18"),
            .init(kind: .http, text: "GET http://1.2.3.4:80/v1/item/decade"),
        ]
        for (index, name) in names.enumerated() { try writer.name(UInt32(index + 1), name) }
        func record(
            _ ms: Double, _ kind: Recording.Record.Kind, _ object: UInt32 = 0, a: Double = 0, flow: UInt32 = 0,
            thread: UInt16 = 0
        ) -> Recording.Record {
            let start = 9_000_000_000_000_000.0
            // A date, a length, or the reason why a loop woke.
            let a = kind == .begin && a > 0 ? start + a * 1e6 : kind == .delayed ? a * 1e6 : a
            return .init(
                time: UInt64(start + ms * 1e6), kind: kind, thread: thread, object: object, a: UInt64(a), flow: flow)
        }
        var main: [Recording.Record] = [
            record(0, .run, 1), record(0, .pass, 1), record(0.1, .sleep), record(20, .wake, a: 1),
            record(20, .begin, 2), record(50, .end, 2), record(50, .delayed, 2, a: 29),
            record(50.1, .begin, 3, a: 25), record(50.2, .end, 3),
        ]
        for number: UInt32 in 1...7 {
            let ms = 50.5 + Double(number)
            main.append(record(ms, .opens, 4 + number, flow: number))
            if number <= 3 { main.append(record(ms + 0.1, .belongs, 4, flow: number)) }
            main.append(record(ms + 0.2, .closes, 4 + number, flow: number))
        }
        main += [record(60, .sleep), record(100, .wake), record(100, .passEnd), record(100, .runEnd, 1)]
        let worker = [
            record(0, .run, 1, thread: 1), record(0, .pass, 1, thread: 1), record(0.1, .sleep, thread: 1),
            record(10, .wake, thread: 1), record(10.2, .passEnd, thread: 1), record(10.3, .runEnd, 1, thread: 1),
            record(10.5, .ended, thread: 1),
        ]
        for records in [main, worker] { try records.withUnsafeBytes { try writer.write($0) } }
        try writer.finish()
    }

    /// The bytes of a file with this ending.
    static func file(_ ending: String) throws -> [UInt8] {
        try inFile(ending) { path in try write(Recording.Writer(path: path, about: about)) }
    }

    /// The bytes of the file that `body` makes.
    static func inFile(_ ending: String, _ body: (String) throws -> Void) throws -> [UInt8] {
        let path = "/tmp/recording-\(getpid())-\(UInt32.random(in: 0...UInt32.max)).\(ending)"
        defer { unlink(path) }
        try body(path)
        return try bytes(of: path)
    }

    static func put(_ bytes: [UInt8], _ path: String) throws {
        let file = try Descriptor(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600), "open", path)
        bytes.withUnsafeBytes { _ = Descriptor.write($0, to: file.number) }
    }

    static func bytes(of path: String) throws -> [UInt8] {
        let file = try Descriptor(open(path, O_RDONLY), "open", path)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(file.number, &buffer, buffer.count)
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: buffer[..<count])
        }
    }
}
