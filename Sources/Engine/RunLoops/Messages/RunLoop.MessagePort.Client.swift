extension RunLoop.MessagePort {
    /// The port's side of a connection from a sender.
    final class Client {
        let connection: MessageConnection
        /// The connection's number: the port numbers its connections from 1.
        let number: Int
        /// Whether the client is in the port's list of turns.
        var hasTurn = false
        private var last: UInt64 = 0
        private var messages = Fifo<Message>()
        /// The number of the client's messages without an answer, delivered or not.
        private var unanswered = 0
        private var unansweredBytes = 0
        /// The number of "done" frames that are queued and not yet sent.
        private var held = 0

        /// Whether the port has become invalid during the callback of a message of this client. The callback may still
        /// answer the message.
        var isLeaving = false
        /// Whether answers are dropped from now on.
        private var isGone = false

        /// The limit, in bytes, of unanswered messages and of unsent answers. Beyond the limit, no more messages are
        /// read or delivered.
        private static let fill = 8 << 20

        init(_ connection: MessageConnection, number: Int) {
            self.connection = connection
            self.number = number
        }

        /// Whether the client's next message may be delivered. Messages of a sender that has died are delivered, too; a
        /// sender that does not read its answers gets no more.
        var mayDeliver: Bool { !messages.isEmpty && connection.unsent < Self.fill }

        func receive(_ frame: MessageFrame) throws(MessageFrame.Malformed) {
            switch frame.kind {
            case .request, .send: break
            case .bye: throw .init(reason: "it says: \(RunLoop.RemotePort.text(of: frame.data))")
            case .reply, .done, .failure: throw .init(reason: "only a port sends frames of kind \(frame.kind.rawValue)")
            }
            // With a repeated number, a message could be handled twice.
            guard frame.conversation == last &+ 1 else {
                throw .init(
                    reason: "conversation \(frame.conversation) does not follow \(last): a frame is lost or repeated")
            }
            guard unanswered < RunLoop.MessagePort.window else {
                throw .init(reason: "more than \(RunLoop.MessagePort.window) of its messages are unanswered")
            }
            last = frame.conversation
            unanswered += 1
            unansweredBytes += frame.data.count
            messages.append(Message(frame, from: self))
            pauseOrResume()
        }

        func takeMessage() -> Message? { messages.popFirst() }

        func answer(_ frame: MessageFrame, for bytes: Int) {
            unanswered -= 1
            unansweredBytes -= bytes
            guard !isGone else { return }
            connection.queue(frame)
            // A "done" frame is not urgent, and a system call for each would cost more than everything else here.
            if frame.kind == .done, !messages.isEmpty, held < 64 {
                held += 1
            } else {
                held = 0
                connection.flush()
            }
            pauseOrResume()
        }

        /// Sends held frames. If another message is to be delivered, does nothing: the answer to that message will be
        /// sent together with the frames.
        func sendHeld() {
            guard held > 0, messages.isEmpty else { return }
            held = 0
            connection.flush()
        }

        /// Closes the connection because the port has become invalid, and drops the messages that were not delivered.
        func close() {
            connection.close()
            messages = Fifo()
        }

        /// Closes the connection when its answers were sent, and drops the messages that were not delivered.
        func closeWhenSent() {
            connection.flush()
            isGone = true
            guard connection.unsent > 0, !connection.hasEnded else { return close() }
            messages = Fifo()
            connection.received = nil
            connection.drained = { self.close() }
            connection.ended = { _ in self.close() }
        }

        func pauseOrResume() { connection.isPaused = unansweredBytes > Self.fill || connection.unsent > Self.fill }
    }
}
