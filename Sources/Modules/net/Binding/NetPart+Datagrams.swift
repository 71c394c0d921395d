internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Streams

extension NetPart {
    /// Calls `on_message` with a message. While the function waits, the socket delivers no further message.
    func message(_ socket: Datagram, _ bytes: UnsafeRawBufferPointer, _ from: String?) {
        guard !host.isClosed, let box = Box(bitPattern: socket.context), box.slot != 0,
            let (fiber, _) = host.prepareCallback(slot: box.slot)
        else { return }
        fiber.stack.pushCopy(of: 2)
        guard fiber.stack.push(bytes), fiber.stack.push(from ?? "") else { return host.recycle(fiber) }
        fiber.owner = CallbackEnd(host) { socket.isHeld = false }
        socket.isHeld = true
        host.resume(fiber, arguments: 3)
    }

    /// Wakes the task that waits in `receive`.
    func canReceive(_ socket: Datagram) {
        guard !host.isClosed, let fiber = Fiber(context: socket.receiver) else { return }
        do throws(StreamFailure) {
            guard let (bytes, from) = try socket.receive() else { return }
            done(socket, fiber)
            // A push may collect garbage, and a finalizer may then read from this socket. No code may run on the stack
            // of a waiting coroutine, so the values are first pushed onto the main stack.
            guard fiber.stack.reserve(4) else { return }
            _ = host.stack.push(bytes)
            _ = host.stack.push(from ?? "")
            host.stack.move(2, to: fiber.stack)
            host.resume(fiber, arguments: 2)
        } catch {
            done(socket, fiber)
            resume(fiber, error)
        }
    }

    private func done(_ socket: Datagram, _ fiber: Fiber) {
        socket.receiver = 0
        leave(socket)
        Waiter.cancel(fiber)
    }
}
