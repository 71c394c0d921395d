package import Lua
internal import LuaRunLoops
package import RunLoops
package import Streams

/// Streams for scripts.
enum StreamBinding {
    static let kind: Kind = Kind(
        "stream", values: NetValue.labels, methods: methods, collect: { Streams.Stream.collect($0) })

    private static let methods: Library = Library(
        of: kind,
        reading + writing + TLSBinding.methods + [
            .init("is_open") { stream($0).answer { $0.isOpen } },
            .init("is_valid") { stream($0).answer { $0.isOpen } },
            .init("close") { stream($0).act { $0.close() } },
            // (seconds): closes as well, but sends the remaining bytes for at most this time.
            .init("close_within", saidAs: "stream:close") {
                stream($0).run { (stream, call) throws(Misuse) in
                    stream.close(within: .nanoseconds(try call.argument(2, Seconds.self)))
                    return call.nothing()
                }
            },
            // `<close>` calls this.
            .init("invalidate") { stream($0).act { $0.close() } },
            .init("abort") { stream($0).act { $0.abort() } },
            .init("name") { stream($0).answer { $0.name } },
            .init("order") { stream($0).answer { $0.order } },
            .init("address") { stream($0).answer { $0.address } },
            .init("peer") { stream($0).answer { $0.peer } },
            .init("fd") { stream($0).answer { $0.isOpen && $0.descriptor >= 0 ? Int($0.descriptor) : nil } },
            .init("bytes_read") { stream($0).answer { $0.bytesRead } },
            .init("bytes_written") { stream($0).answer { $0.bytesWritten } },
            .init("credentials") { stream($0).run { stream, call in credentials(stream, call) } },
            .init("set_timeout") {
                stream($0).run { (stream, call) throws(Misuse) in
                    stream.timeout = try call.optional(2, Seconds.self) ?? -1
                    return 0
                }
            },
            .init("set_keeps_alive") {
                stream($0).run { (stream, call) throws(Misuse) in
                    stream.staysIdle = !(try call.argument(2, Boolean.self))
                    for waiter in stream.waiters {
                        if let fiber = Fiber(context: waiter) { Waiter.setKeepsAlive(!stream.staysIdle, fiber) }
                    }
                    return 0
                }
            },
            .init("set_nodelay") {
                stream($0).run { (stream, call) throws(Misuse) in
                    let on = try call.argument(2, Boolean.self)
                    return call.attempt { () throws(StreamFailure) in try stream.setNoDelay(on) }
                }
            },
            .init("set_keepalive") {
                stream($0).run { (stream, call) throws(Misuse) in try setKeepAlive(stream, call) }
            },
            .init("__tostring") { stream($0).run { stream, call in describe(stream, call) } },
        ])

    static func stream(_ thread: OpaquePointer?) -> Receiver<Streams.Stream> { receiver(thread, Streams.Stream.self) }

    private static func credentials(_ stream: Streams.Stream, _ call: Call) -> Int32 {
        call.attempt { () throws(StreamFailure) in
            let who = try stream.credentials()
            var program = ValueProgram()
            program.table { table in
                table.field("pid") { $0.append(Int(who.process)) }
                table.field("uid") { $0.append(Int(who.user)) }
                table.field("gid") { $0.append(Int(who.group)) }
            }
            return program
        }
    }

    private enum KeepAlive: Int, Field {
        case idle, interval, count
        static let names: [StaticString] = ["idle", "interval", "count"]
    }

    /// stream:set_keepalive(true), (false) or ({ idle =, interval =, count = })
    private static func setKeepAlive(_ stream: Streams.Stream, _ call: Call) throws(Misuse) -> Int32 {
        guard call.stack.type(2) == .table else {
            let on = try call.argument(2, Boolean.self)
            return call.attempt { () throws(StreamFailure) in try stream.setKeepAlive(on) }
        }
        let options = try call.fields(2, KeepAlive.self)
        let idle = Int32(try options[.idle, WholeSeconds.self] ?? 0)
        let interval = Int32(try options[.interval, WholeSeconds.self] ?? 0)
        let count = Int32(try options[.count, WholeSeconds.self] ?? 0)
        return call.attempt { () throws(StreamFailure) in
            try stream.setKeepAlive(true, idle: idle, interval: interval, count: count)
        }
    }

    enum WholeSeconds: Parameter {
        static let expected = "an integer from 1 to 32767"
        static func read(_ stack: Stack, _ index: Int32) -> Int? {
            stack.integer(index).flatMap { (1...32767).contains($0) ? $0 : nil }
        }
    }

    /// Details for `rl.why` and the like.
    static func detail(_ stream: Streams.Stream) -> String {
        var parts = [stream.subject]
        if stream.isConnecting { parts.append("connecting") }
        if stream.isReading { parts.append("is read") }
        if stream.delivers, !stream.endWasDelivered { parts.append("delivers") }
        if stream.unsent > 0 { parts.append("\(stream.unsent) bytes to send") }
        if !stream.isOpen { parts.append("closing") }
        return parts.joined(separator: ", ")
    }

    private static func describe(_ stream: Streams.Stream, _ call: Call) -> Int32 {
        var parts = [stream.subject]
        if !stream.isOpen { parts.append("closed") } else if stream.isConnecting { parts.append("connecting") }
        return call.describe(stream, parts)
    }
}

extension Call {
    func fail(_ failure: StreamFailure) -> Int32 {
        failure === StreamFailure.timedOut ? refuse("timed out") : fail(failure.description, plainly: failure.code)
    }

    /// Returns the text of `tostring` for a network object.
    func describe(_ item: RunLoop.Item, _ details: [String]) -> Int32 {
        answer(String(receiver.kindName, name: item.name, details, site: interpreter.site(receiver.site)))
    }
}

extension StreamFailure: Refusal {
    package func fail(_ call: Call) -> Int32 { call.fail(self) }
}

/// `loop:add`, `loop:remove`, `loop:contains`.
extension Streams.Stream: Schedulable {
    package func add(to loop: RunLoop, mode: RunLoop.Mode, _ call: Call) throws(Misuse) {
        guard isOpen else { throw Misuse("the stream is closed") }
        guard !loop.isElsewhere(self), network.loop === loop else {
            throw Misuse("the stream belongs to another thread")
        }
        // The loop keeps only streams that deliver. A waiting task keeps the others.
        if let box = Box(bitPattern: context), box.slot == 0, wantsDelivery { box.slot = call.stack.anchor(2) }
        if wantsDelivery { delivers = true }
        loop.add(self, to: mode)
    }

}
