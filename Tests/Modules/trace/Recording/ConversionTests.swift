import Glibc
import TestSupport
import Testing

@testable import Tracing
import RunLoops

@Suite("Reading and converting recordings", .timed)
struct ConversionTests {
    private static let forms = ["pftrace", "json"]

    /// Converts a file to another form.
    private static func converted(_ bytes: [UInt8], _ from: String, _ to: String) throws -> [UInt8] {
        var result: [UInt8] = []
        _ = try Sample.inFile(from) { path in
            try Sample.put(bytes, path)
            result = try Sample.inFile(to) { target in try Recording.Conversion.convert([path], to: target) }
        }
        return result
    }

    @Test("a conversion between any two forms loses nothing", arguments: forms, forms)
    func forthAndBack(first: String, second: String) throws {
        let there = try Self.converted(Sample.file(first), first, second)
        let back = try Self.converted(there, second, "json")
        let (lines, expected) = try (
            String(decoding: back, as: UTF8.self).split(separator: "\n"),
            String(decoding: Sample.file("json"), as: UTF8.self).split(separator: "\n")
        )
        for (line, wanted) in zip(lines, expected) { #expect(line == wanted) }
        #expect(lines.count == expected.count)
    }

    @Test("a conversion keeps ends of loops, delays and routes", arguments: forms, forms)
    func ends(first: String, second: String) throws {
        let expected = try Sample.inFile("json", Sample.ends)
        let there = try Self.converted(Sample.inFile(first, Sample.ends), first, second)
        let back = try String(decoding: Self.converted(there, second, "json"), as: UTF8.self)
        #expect(back == String(decoding: expected, as: UTF8.self))
        for text in ["\"cat\":\"ended\"", "\"not_scheduled_us\":29000", "\"ph\":\"n\""] { #expect(back.contains(text)) }
    }

    @Test("a recording that ends in the middle of an event counts up to there, wherever that is", arguments: forms)
    func cut(form: String) throws {
        let bytes = try Sample.file(form)
        let whole = try Self.converted(bytes, form, "json")
        for count in stride(from: 1, to: bytes.count, by: 7) {
            do {
                let text = try Self.converted(Array(bytes[..<count]), form, "json")
                // The conversion knows each kind of event.
                let lines = text.split(separator: UInt8(ascii: "\n")).dropLast(2)
                let expected = whole.split(separator: UInt8(ascii: "\n"))
                #expect(lines.count < expected.count)
            } catch let error as Recording.Conversion.Problem {
                #expect("\(error)".contains(" is not a recording: "))
            }
        }
    }

    @Test("bytes of any kind end as a problem or as a recording, never in a crash", arguments: forms)
    func random(form: String) throws {
        let bytes = try Sample.file(form)
        var generator = Random(seed: 17)
        for _ in 0..<300 {
            var spoilt = bytes
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                spoilt[Int.random(in: 0..<spoilt.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            do { _ = try Self.converted(spoilt, form, "html") } catch is Recording.Conversion.Problem {}
        }
    }

    @Test(
        "an error names the file",
        arguments: [
            ("json", "[\n{\"ph\":\"B\"}]", "line 2: an event without a time, \"ts\""),
            ("json", "[\n{\"ts\":1}]", "line 2: an event without \"ph\""),
            ("json", "[\n\n{\"ph\" 1}, {}]", "line 3: expected ':', found '1'"),
            ("json", "{\"a\":1}", "it has no \"traceEvents\""),
            ("json", "hello", "line 1: expected an array of events, found 'h'"),
            ("pftrace", "hello", "byte 2: a packet was expected"), ("pftrace", "", "it is empty"),
            ("pftrace", "\n\u{7f}", "it has no packet at its start"),
            ("html", "<!doctype html>", "it is a page; pages are made from files that end in .pftrace or .json"),
        ])
    func problems(form: String, text: String, problem: String) throws {
        _ = try Sample.inFile(form) { path in
            try Sample.put(Array(text.utf8), path)
            let target = path + ".html"
            #expect {
                try Recording.Conversion.convert([path], to: target)
            } throws: { "\($0)" == "\(path) is not a recording: \(problem)" }
            #expect(access(target, F_OK) != 0, "no page of nothing")
        }
    }

    @Test("a missing file and a directory are reported, too")
    func refusals() {
        #expect {
            try Recording.Conversion.convert(["/nowhere.json"], to: "/tmp/x.html")
        } throws: { "\($0)" == "ENOENT: no such file or directory (/nowhere.json)" }
        #expect {
            try Recording.Conversion.convert(["/tmp"], to: "/tmp/x.html")
        } throws: { "\($0)" == "EINVAL: a recording is a file, and /tmp is none" }
    }

    @Test("a recording is not written over itself, under any name, and a pipe is refused", .timeLimit(.minutes(1)))
    func itself() throws {
        let bytes = try Sample.inFile("json") { path in
            try Sample.write(Recording.Writer(path: path, about: Sample.about))
            let link = "\(path).link.json"
            defer { unlink(link) }
            #expect(symlink(path, link) == 0)
            for target in ["/tmp/../\(path)", link] {
                #expect {
                    try Recording.Conversion.convert([path], to: target)
                } throws: {
                    "\($0)" == "'\(path)' cannot be read and written at once; name another file than '\(target)'"
                }
            }
        }
        #expect(try bytes == Sample.file("json"))
        let pipe = "/tmp/pipe-\(getpid()).json"
        defer { unlink(pipe) }
        #expect(mkfifo(pipe, 0o600) == 0)
        #expect {
            try Recording.Conversion.convert([pipe], to: "/tmp/x.html")
        } throws: { "\($0)" == "EINVAL: a recording is a file, and \(pipe) is none" }
    }

    @Test("recordings of two processes become one, with loops told apart and arrows between them")
    func several() throws {
        let (first, second) = ("/tmp/first-\(getpid()).pftrace", "/tmp/second-\(getpid()).json")
        defer {
            unlink(first)
            unlink(second)
        }
        for (path, process, kind) in [(first, Int32(11), Recording.Record.Kind.out), (second, 22, .in)] {
            let writer = try Recording.Writer(path: path, about: .init(title: "p\(process).lua", process: process))
            try writer.thread(0, "main")
            try writer.name(1, .init(kind: .message, text: "message", place: "p.lua:1"))
            let records = [
                Recording.Record(time: 5, kind: .begin, object: 1),
                .init(time: 6, kind: kind, object: 1, flow: 0xFFFF_FFFE), .init(time: 7, kind: .end, object: 1),
            ]
            try records.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        }
        let text = String(
            decoding: try Sample.inFile("json") { try Recording.Conversion.convert([first, second], to: $0) },
            as: UTF8.self)
        #expect(text.contains(#""tid":0,"name":"thread_name","args":{"name":"p11.lua 11: main"}"#))
        #expect(text.contains(#""tid":1,"name":"thread_name","args":{"name":"p22.lua 22: main"}"#))
        #expect(text.contains(#"{"ph":"s","pid":11,"tid":0,"ts":0.006,"cat":"flow","name":"flow","id":4294967294"#))
        #expect(text.contains(#"{"ph":"f","pid":11,"tid":1,"ts":0.006,"cat":"flow","name":"flow","id":4294967294"#))
    }

    @Test("unfinished items last until their own recording's end, not until a later one's")
    func unended() throws {
        let paths = [11, 22].map { "/tmp/unended-\(getpid())-\($0).pftrace" }
        defer { paths.forEach { unlink($0) } }
        for (path, start) in zip(paths, [UInt64(1000), 900_000_000_000]) {
            let writer = try Recording.Writer(
                path: path, about: .init(title: "p.lua", process: Int32(clamping: start / 1000)))
            try writer.thread(0, "main")
            try writer.name(1, .init(kind: .timer, text: "timer"))
            let records: [Recording.Record] = [
                .init(time: start, kind: .run, object: 1), .init(time: start, kind: .pass, object: 1),
                .init(time: start, kind: .opens, object: 1, flow: 7),
                .init(time: start + 1000, kind: .begin, object: 1), .init(time: start + 3000, kind: .mark, object: 1),
            ]
            try records.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        }
        let text = String(
            decoding: try Sample.inFile("json") { try Recording.Conversion.convert(paths, to: $0) }, as: UTF8.self)
        let ends = text.matches(of: /"ph":"[Ee]".*"tid":(\d),"ts":(\d+\.\d+)/).map { "\($0.1) \($0.2)" }
        let expected = ["0 4.000", "1 900000003.000"].flatMap { Array(repeating: $0, count: 4) }
        #expect(ends == expected, "\(text)")
        // A single recording is not changed.
        let alone = String(
            decoding: try Sample.inFile("json") { try Recording.Conversion.convert([paths[0]], to: $0) }, as: UTF8.self)
        #expect(!alone.contains("\"ph\":\"E\""))
    }

    @Test("numbers that each process counts for itself do not connect processes")
    func counted() throws {
        let paths = [11, 22].map { "/tmp/counted-\(getpid())-\($0).pftrace" }
        defer { paths.forEach { unlink($0) } }
        for (path, process) in zip(paths, [Int32(11), 22]) {
            let writer = try Recording.Writer(path: path, about: .init(title: "p.lua", process: process))
            try writer.thread(0, "main")
            try writer.name(1, .init(kind: .request, text: "request"))
            let records: [Recording.Record] = [
                .init(time: 6, kind: .out, object: 1, flow: 3),
                .init(time: 8, kind: .whole, object: 1, a: 1, flow: 3),
            ]
            try records.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        }
        let text = String(
            decoding: try Sample.inFile("json") { try Recording.Conversion.convert(paths, to: $0) }, as: UTF8.self)
        let numbers = text.matches(of: /"ph":"s".*"tid":(\d).*"id":(\d+)/).map { "\($0.1) \($0.2)" }
        #expect(numbers == ["0 3", "1 \(1 << 22 | 3)"])
        #expect(text.matches(of: /"ph":"X".*"flow":(\d+)/).map { String($0.1) } == ["3", "\(1 << 22 | 3)"])
    }

    @Test("recordings of earlier versions, with bare reasons and times in nanoseconds, are read")
    func earlier() throws {
        let source = #"""
            [{"ph":"B","pid":1,"tid":0,"ts":1.000,"cat":"run","name":"default"},
            {"ph":"B","pid":1,"tid":0,"ts":1.100,"cat":"sleep","name":"asleep","args":{"until":2500}},
            {"ph":"E","pid":1,"tid":0,"ts":2.500,"args":{"reason":1}},
            {"ph":"B","pid":1,"tid":0,"ts":2.600,"cat":"timer","name":"tick","args":{"due":2500,"late":100}},
            {"ph":"E","pid":1,"tid":0,"ts":2.700},{"ph":"E","pid":1,"tid":0,"ts":2.800,"args":{"result":3}}]
            """#
        let text = String(decoding: try Self.converted(Array(source.utf8), "json", "json"), as: UTF8.self)
        for part in [
            #""until_us":2.500"#, #""reason":"timer""#, #""due_us":2.500,"late_us":0.100"#, #""result":"timed_out""#,
        ] { #expect(text.contains(part), "\(text)") }
    }

    @Test("events of other programs are converted as far as they have the same meaning")
    func foreign() throws {
        let source = #"""
            {"displayTimeUnit":"ns","traceEvents":[
            {"name":"thread_name","ph":"M","pid":3,"tid":77,"args":{"name":"Compositor \u00e9\ud83d\ude00"}},
            {"name":"Paint","cat":"blink,gpu","ph":"X","ts":1.5e3,"dur":12.5,"pid":3,"tid":77,"args":{"data":{"a":[1,2]}}},
            {"name":"Tick","cat":"loop","ph":"B","ts":2000,"pid":3,"tid":77},{"ph":"E","ts":2001.25,"pid":3,"tid":77}],
            "metadata":{"os":null}}
            """#
        let text = String(decoding: try Self.converted(Array(source.utf8), "json", "json"), as: UTF8.self)
        #expect(text.contains("{\"name\":\"Compositor é😀\"}"))
        #expect(text.contains(#""ts":1500.000,"cat":"span","name":"Paint","dur":12.500}"#))
        #expect(text.contains(#"{"ph":"B","pid":0,"tid":0,"ts":2000.000,"cat":"span","name":"Tick"}"#))
        #expect(text.contains(#"{"ph":"E","pid":0,"tid":0,"ts":2001.250"#))
    }
}
