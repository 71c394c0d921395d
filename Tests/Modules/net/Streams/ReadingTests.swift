import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Streams

@Suite("Streams: reading, in simulated time", .timed)
struct ReadingTests {
    @Test("units are found in whatever pieces the bytes arrive", arguments: [1, 2, 3, 5, 8, 1000])
    func units(chunk: Int) {
        let world = World()
        let (a, b) = world.memory(chunk: chunk)
        a.write(Array("one\r\ntwo\n\n12345head\r\n\r\nrest".utf8))
        a.close()
        var got: [String] = []
        let wanted: [Stream.Unit] = [
            .line, .line, .line, .exactly(5), .until(Stream.Ending(text: Array("\r\n\r\n".utf8))), .peek(2), .all, .any,
        ]
        func next(_ place: Int) {
            guard place < wanted.count else { return }
            b.read(wanted[place]) { outcome in
                got.append(outcome.text)
                next(place + 1)
            }
        }
        next(0)
        world.run()
        #expect(got == ["one", "two", "", "12345", "head", "re", "rest", "end"])
    }

    /// A server has one idle stream for each connection.
    @Test("an idle stream takes at most 328 bytes")
    func size() throws {
        let (a, _) = World().memory(chunk: 1)
        let function = try #require(dlsym(nil, "malloc_usable_size"))
        let usable = unsafeBitCast(function, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
        #expect(usable(Unmanaged.passUnretained(a).toOpaque()) <= 328)
    }

    /// Reads fail as those of a broken device, and of a terminal whose other side is closed.
    private final class Broken: SystemCalls {
        override func read(_ fd: Int32, _ bytes: UnsafeMutableRawPointer, _ count: Int, isNonblocking: Bool) -> Int {
            -Int(EIO)
        }
    }

    @Test("EIO is the end of a terminal, and an error of a pipe")
    func inputError() throws {
        var ends: [Int32] = [-1, -1]
        #expect(pipe(&ends) == 0)
        defer { close(ends[1]) }
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var got: [String] = []
        for (descriptor, expected) in [(ends[0], "[EIO]"), (terminal, "end")] {
            let world = World(Broken())
            let stream = try Stream(world.network, owning: descriptor)
            world.loop.add(stream)
            stream.read(.line) { got.append($0.text) }
            world.run()
            #expect(got.last == expected)
            stream.close()
        }
        #expect(got.count == 2)
    }

    @Test("a read whose time is over consumes nothing")
    func timeout() {
        let world = World()
        let (a, b) = world.memory()
        a.write(Array("hal".utf8))
        var got: [String] = []
        var date = RunLoop.Instant(nanoseconds: 0)
        b.read(.line, timeout: .seconds(30)) { outcome in
            got.append(outcome.text)
            date = world.loop.now
            a.write(Array("f\n".utf8))
            b.read(.line) { got.append($0.text) }
        }
        world.run(for: .seconds(60))
        #expect(got == ["timed out", "half"])
        #expect(date == .init(nanoseconds: 30_000_000_000))
    }

    @Test("a read that is cancelled, or meets its limit, consumes nothing")
    func cancelAndLimit() {
        let world = World()
        let (a, b) = world.memory()
        a.write(Array("0123456789\n".utf8))
        b.read(.exactly(20), limit: .max) { _ in Issue.record("it was cancelled") }
        world.run()
        #expect(b.cancelRead())
        #expect(b.buffered == 11)
        var got: [String] = []
        b.read(.line, limit: 9) { got.append($0.text) }
        b.read(.line, limit: 10) { got.append($0.text) }
        #expect(got == ["[EMSGSIZE]", "0123456789"])
    }

    @Test("an early end leaves the bytes before it in the buffer")
    func early() {
        let world = World()
        let (a, b) = world.memory()
        a.write(Array("abc".utf8))
        a.finish()
        var got: [String] = []
        b.read(.exactly(10)) { outcome in
            got.append(outcome.text)
            b.read(.any) { got.append($0.text) }
            b.read(.any) { got.append($0.text) }
        }
        world.run()
        #expect(got == ["[EOF]", "abc", "end"])
    }

    @Test("data that arrives while the loop runs in another mode waits")
    func modes() {
        let world = World()
        let (a, b) = world.memory()
        let other = RunLoop.Mode(rawValue: "other")
        world.loop.add(RunLoop.Port(), to: other)
        var got: [String] = []
        b.deliver { _, outcome in got.append(outcome.text) }
        a.write(Array("x".utf8))
        world.loop.run(in: other, for: .seconds(1))
        #expect(got == [])
        world.run()
        #expect(got == ["x"])
    }

    @Test("an idle stream does not keep its loop running, one that is read does")
    func idle() {
        let world = World()
        let (_, b) = world.memory()
        #expect(world.loop.run() == .finished)
        b.read(.any) { _ in }
        #expect(world.loop.run(in: .default, for: .seconds(1)) == .timedOut)
    }

    @Test("writers continue in order when less than the mark is left")
    func writers() {
        let world = World()
        let (a, b) = world.memory()
        a.settings = .init(highWater: 1000)
        var done: [Int] = []
        for i in 0..<5 { a.write([UInt8](repeating: UInt8(i), count: 200_000)) { _ in done.append(i) } }
        world.run()
        // The buffer of the pipe takes the first piece, and a part of the second.
        #expect(done == [0])
        var count = 0
        b.deliver { _, outcome in
            if case .bytes(let bytes) = outcome {
                #expect(
                    bytes.allSatisfy {
                        Int($0) == (count + 0) / 200_000 || Int($0) == (count + bytes.count - 1) / 200_000
                    })
                count += bytes.count
            }
        }
        world.run()
        #expect(done == [0, 1, 2, 3, 4])
        #expect(count == 1_000_000)
    }
}
