internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

/// The functions of `runloop.net` that are written in Swift. The Lua functions with the same names check the arguments
/// first.
enum NetBinding {
    static let functions: Library = Library(
        "net.",
        [
            .init("serve", constructs: ListenerBinding.kind) { Call.run($0, ListenerBinding.make) },
            .init("listener", constructs: ListenerBinding.kind) { Call.run($0, ListenerBinding.make) },
            .init("connect", constructs: StreamBinding.kind) { Call.run($0, connect) },
            .init("stream", constructs: StreamBinding.kind) { Call.run($0, makeStream) },
            .init("pair") { Call.run($0, pair) },
            .init("memory") { Call.run($0, memory) },
            .init("open", constructs: StreamBinding.kind) { Call.run($0, open) },
            .init("tls", constructs: TLSBinding.kind) { Call.run($0, TLSBinding.make) },
            .init("splice", constructs: SpliceBinding.kind) { Call.run($0, SpliceBinding.make) },
            .init("datagram", constructs: DatagramBinding.kind) { Call.run($0, DatagramBinding.make) },
            .init("inherited") { Call($0).answer(InheritedSockets.all) },
            .init("resolve") { Call.run($0, resolve) },
            // (function): sets what `stream:read_until` calls for patterns.
            .init("set_pattern_reader") {
                let call = Call($0)
                call.luaHost.part(NetPart.self).patternReader = call.stack.anchor(1)
                return call.nothing()
            },
        ])

    // MARK: Arguments

    /// Reads a place from text. The Lua half has converted numbers and tables.
    static func place(_ call: Call, _ index: Int32) throws(Misuse) -> Place {
        if call.stack.isMissing(index) { throw Misuse("field 'port' or 'path' is missing") }
        let text = try call.argument(index, Text.self)
        do throws(Place.Mistake) {
            let place = try Place(parsing: text, bytes: text.anyBytes)
            try place.check()
            return place
        } catch {
            throw Misuse(error.text)
        }
    }

    static func settings(_ highWater: Int?, _ maxQueue: Int?) -> Streams.Stream.Settings {
        guard highWater != nil || maxQueue != nil else { return .standard }
        return Streams.Stream.Settings(highWater: highWater ?? 262_144, maxQueue: maxQueue ?? 16 << 20)
    }

    private enum Option: Int, Field {
        case host, port, path, timeout, tls, bind, nodelay, keepalive, keepsAlive, name, order, highWater, maxQueue
        case onOpen, onData, onEnd, onError
        static let names: [StaticString] = [
            "host", "port", "path", "timeout", "tls", "bind", "nodelay", "keepalive", "keeps_alive", "name", "order",
            "high_water", "max_queue", "on_open", "on_data", "on_end", "on_error",
        ]
    }

    /// Makes a stream that will connect, from (where, options), in the userdata that is argument 1.
    private static func unconnected(_ call: Call) throws(Misuse) -> Streams.Stream {
        let fields = try call.fields(3, Option.self)
        let place = try place(call, 2)
        var options = Streams.Stream.ConnectOptions()
        options.timeout = .nanoseconds(try fields[.timeout, Seconds.self] ?? 30_000_000_000)
        options.noDelay = try fields[.nodelay, Boolean.self] ?? true
        options.keepAlive = try fields[.keepalive, Boolean.self] ?? true
        options.tls = call.stack.object(5, TLSBinding.kind, as: TLSContext.self)
        options.serverName = try call.optional(6, Text.self)
        if fields.has(.bind) { options.bind = try own(call, fields) }
        let name = try fields[.name, Name.self] ?? ""
        let order = try fields[.order, Integer.self] ?? 0
        let settings = try settings(
            fields[.highWater, StreamBinding.Positive.self], fields[.maxQueue, StreamBinding.Positive.self])
        let keepsAlive = try fields[.keepsAlive, Boolean.self] ?? true
        let part = call.luaHost.part(NetPart.self)
        let stream = part.network.stream(
            to: place, options, name: name, order: order, owner: part.owner, settings: settings)
        if !keepsAlive { stream.staysIdle = true }
        return stream
    }

    /// Returns the local address from the options: "192.0.2.1", with or without a port.
    private static func own(_ call: Call, _ fields: Fields<Option>) throws(Misuse) -> Place {
        let text = try fields.required(.bind, Text.self)
        let place: Place
        if text.hasSuffix("]") || !text.contains(":") {
            place = .host(text.hasPrefix("[") ? String(text.dropFirst().dropLast()) : text, port: 0)
        } else {
            guard let parsed = try? Place(parsing: text, bytes: text.anyBytes) else {
                throw fields.wrong(.bind, "a local address, with or without a port")
            }
            place = parsed
        }
        guard place.isNumeric else { throw fields.wrong(.bind, "a local address, with or without a port") }
        return place
    }

    /// net.connect, with the arguments (where, options). Waits.
    private static func connect(_ call: Call) throws(Misuse) -> Int32 {
        let stream = try unconnected(call)
        let takeBack: (Streams.Stream) -> Void = { stream in
            stream.opener = 0
            stream.abort()
        }
        return call.wait(in: "net.connect", for: stream, takeBack: takeBack) { fiber, host in
            stream.fill(call.receiver, site: call.site)
            stream.opener = fiber.context
            if fiber.isBackground { stream.openerStaysIdle = true }
            let loop = host.loop
            loop.add(stream, to: .common)
            if let mode = loop.currentMode, !loop.contains(stream, in: mode) { loop.add(stream, to: mode) }
        }
    }

    /// net.stream, with the arguments (where, options, functions). The stream does nothing before it is in a loop.
    private static func makeStream(_ call: Call) throws(Misuse) -> Int32 {
        let stream = try unconnected(call)
        stream.fill(call.receiver, site: call.site)
        if call.stack.type(4) == .table {
            call.stack.pushCopy(of: 4)
            call.stack.setUserValue(1, of: 1)
            stream.wantsDelivery = true
        }
        return call.answerArgument(1)
    }

    // MARK: Streams that are open

    /// Returns the userdata of streams, in the common modes.
    private static func answer(_ call: Call, _ streams: Streams.Stream...) -> Int32 {
        let part = call.luaHost.part(NetPart.self)
        for stream in streams {
            guard part.push(stream, call.stack, site: call.site) != nil else {
                for stream in streams { stream.abort() }
                return call.raiseValue()
            }
            part.network.loop.add(stream, to: .common)
        }
        return call.values(Int32(streams.count))
    }

    private static func pair(_ call: Call) throws(Misuse) -> Int32 {
        let part = call.luaHost.part(NetPart.self)
        return call.attempt { () throws(StreamFailure) in
            let (a, b) = try part.network.pair()
            return answer(call, a, b)
        }
    }

    private enum MemoryOption: Int, Field {
        case latency, bandwidth, chunk, highWater
        static let names: [StaticString] = ["latency", "bandwidth", "chunk", "high_water"]
    }

    private enum Rate: Parameter {
        static let expected = "a number of bytes per second, more than 0"
        static func read(_ stack: Stack, _ index: Int32) -> Double? {
            stack.number(index).flatMap { $0 > 0 ? $0 : nil }
        }
    }

    private static func memory(_ call: Call) throws(Misuse) -> Int32 {
        var options = Network.MemoryOptions()
        var settings = Streams.Stream.Settings.standard
        if let fields = try call.optionalFields(1, MemoryOption.self) {
            options.latency = .nanoseconds(try fields[.latency, Seconds.self] ?? 0)
            options.bandwidth = try fields[.bandwidth, Rate.self] ?? 0
            options.chunk = try fields[.chunk, StreamBinding.Positive.self] ?? 0
            settings = try Self.settings(fields[.highWater, StreamBinding.Positive.self], nil)
        }
        let part = call.luaHost.part(NetPart.self)
        let (a, b) = part.network.memoryPair(options)
        (a.settings, b.settings) = (settings, settings)
        return answer(call, a, b)
    }

    /// net.open, net.input and the like, with the arguments (descriptor, owns, name, functions, keeps_alive). A
    /// descriptor that the stream does not own is duplicated.
    private static func open(_ call: Call) throws(Misuse) -> Int32 {
        let number = try call.argument(2, Integer.self)
        let owns = try call.optional(3, Boolean.self) ?? false
        let name = try call.optional(4, Name.self) ?? ""
        let keepsAlive = call.isMissing(6) || call.boolean(6)
        let part = call.luaHost.part(NetPart.self)
        return call.attempt { () throws(StreamFailure) in
            guard let fd = Int32(exactly: number) else { throw StreamFailure(errno: 9, "descriptor \(number)") }
            let stream = try Streams.Stream(
                part.network, opening: fd, owns: owns, name: name, owner: part.owner)
            stream.staysIdle = !keepsAlive
            stream.fill(call.receiver, site: call.site)
            if call.stack.type(5) == .table {
                call.stack.pushCopy(of: 5)
                call.stack.setUserValue(1, of: 1)
                stream.wantsDelivery = true
                call.receiver.slot = call.stack.anchor(1)
                stream.delivers = true
            }
            part.network.loop.add(stream, to: .common)
            return call.answerArgument(1)
        }
    }

    // MARK: Names

    /// (name, family, timeout) → a list of addresses. Waits.
    private static func resolve(_ call: Call) throws(Misuse) -> Int32 {
        let name = try call.argument(1, Text.self)
        let family = Resolver.Family(rawValue: Int32(clamping: try call.optional(2, Integer.self) ?? 0)) ?? .any
        let timeout = try call.optional(3, Seconds.self) ?? -1
        switch call.beginWait(
            in: "net.resolve",
            cancel: { fiber in
                Waiter.cancel(fiber)
                question(fiber)?.takeRetainedValue().cancel()
            })
        {
        case .refused(let answer): return answer
        case .begun(let fiber):
            let host = call.luaHost
            let part = host.part(NetPart.self)
            let question = part.network.resolver.resolve(name, family: family, keepsAlive: !fiber.isBackground) {
                result in
                guard !host.isClosed else { return }
                Waiter.cancel(fiber)
                Self.question(fiber)?.release()
                part.answer(fiber, result)
            }
            fiber.waitsFor = Int(bitPattern: Unmanaged.passRetained(question).toOpaque())
            if timeout >= 0 {
                Waiter.of(fiber, host).limit(
                    timeout, host,
                    timedOut: { fiber, host in
                        Self.question(fiber)?.takeRetainedValue().cancel()
                        host.part(NetPart.self).resume(fiber, .timedOut)
                    })
            }
            return call.yield()
        }
    }

    private static func question(_ fiber: Fiber) -> Unmanaged<Resolver.Question>? {
        UnsafeRawPointer(bitPattern: fiber.waitsFor).map { Unmanaged.fromOpaque($0) }
    }
}

extension NetPart {
    /// Passes the result to the task that waits for a name's addresses.
    func answer(_ fiber: Fiber, _ result: Result<[String], StreamFailure>) {
        switch result {
        case .failure(let failure): resume(fiber, failure)
        case .success(let addresses):
            guard fiber.stack.reserve(4) else { return }
            _ = host.stack.push(ValueProgram(list: addresses))
            host.stack.move(1, to: fiber.stack)
            host.resume(fiber, arguments: 1)
        }
    }
}
