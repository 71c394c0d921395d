import CStreams
import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Streams

@Suite("Streams: listeners", .timed)
struct ListenerTests {
    private func option(_ fd: Int32, _ level: Int32, _ name: Int32) -> Int32 {
        var value: Int32 = -1
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1
    }

    @Test("a connection has its options from the socket that accepts it, without a system call of its own")
    func options() throws {
        let world = World(waitsForDescriptors: true)
        let listener = try Listener(world.network, at: .host("127.0.0.1", port: 0))
        var options: [Int32] = []
        listener.onConnection = { stream in
            let fd = stream.descriptor
            options = [
                option(fd, Int32(IPPROTO_TCP), TCP_NODELAY), option(fd, SOL_SOCKET, SO_KEEPALIVE),
                option(fd, Int32(IPPROTO_TCP), TCP_KEEPIDLE), option(fd, Int32(IPPROTO_TCP), TCP_KEEPINTVL),
                option(fd, Int32(IPPROTO_TCP), TCP_KEEPCNT),
            ]
            stream.close()
        }
        world.loop.add(listener)
        var client: Stream?
        world.network.connect(to: .host("127.0.0.1", port: listener.port)) { client = try? $0.get() }
        for _ in 0..<100 where options.isEmpty { world.run(for: .milliseconds(20)) }
        #expect(options == [1, 1, 15, 15, 9])
        client?.close()
        listener.close()
        world.run()
    }

    @Test("a stream that asks a silent peer with all three numbers waits as long for acknowledgements")
    func keepAlive() throws {
        let world = World(waitsForDescriptors: true)
        let listener = try Listener(world.network, at: .host("127.0.0.1", port: 0))
        var timeouts: [Int32] = []
        listener.onConnection = { stream in
            for (idle, interval, count) in [(0, 0, 0), (15, 0, 0), (15, 5, 3)] as [(Int32, Int32, Int32)] {
                try? stream.setKeepAlive(true, idle: idle, interval: interval, count: count)
                timeouts.append(option(stream.descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT))
            }
            stream.close()
        }
        world.loop.add(listener)
        var client: Stream?
        world.network.connect(to: .host("127.0.0.1", port: listener.port)) { client = try? $0.get() }
        for _ in 0..<100 where timeouts.count < 3 { world.run(for: .milliseconds(20)) }
        #expect(timeouts == [0, 0, 30000])
        client?.close()
        listener.close()
        world.run()
    }

    @Test("closed connections leave the list of those that wait for their peers, in whatever order these go")
    func draining() throws {
        let world = World(waitsForDescriptors: true)
        let listener = try Listener(world.network, at: .host("127.0.0.1", port: 0))
        listener.onConnection = {
            $0.write(Array("x".utf8))
            $0.close()
        }
        world.loop.add(listener)
        var clients: [Stream] = []
        for _ in 0..<20 {
            world.network.connect(to: .host("127.0.0.1", port: listener.port)) {
                if let one = try? $0.get() { clients.append(one) }
            }
        }
        for _ in 0..<100 where world.network.draining.count < 20 { world.run(for: .milliseconds(20)) }
        #expect(world.network.draining.count == 20)
        clients.shuffle()
        while let client = clients.popLast() {
            client.abort()
            for _ in 0..<100 where world.network.draining.count > clients.count { world.run(for: .milliseconds(1)) }
            #expect(world.network.draining.count == clients.count)
        }
        listener.close()
        world.run(for: .seconds(10))
    }
}
