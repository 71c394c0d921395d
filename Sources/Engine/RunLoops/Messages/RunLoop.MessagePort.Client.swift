extension RunLoop.MessagePort {
    /// Somebody who sends to a port: the port's side of a connection.
    final class Client {
        let connection: MessageConnection
        /// Counted from 1: who among all that ever connected to the port.
        let number: Int
        /// It is in the port's list of turns.
        var hasTurn = false
        private var last: UInt64 = 0
        private var messages = Fifo<Message>()
        /// Delivered or not.
        private var unanswered = 0
        private var unansweredBytes = 0
        /// How many "done" are queued and not sent.
        private var held = 0

        /// The port has ended in the callback of one of its messages, which that may still answer.
        var isLeaving = false
        /// What has not been answered never will be.
        private var isGone = false

        /// Bytes of unanswered messages, or unsent answers, beyond which no more is read, or delivered.
        private static let fill = 8 << 20

        init(_ connection: MessageConnection, number: Int) {
            self.connection = connection
            self.number = number
        }

        /// Who has died is served all the same: its messages were sent. Who does not read its answers gets no more.
        var mayDeliver: Bool { !messages.isEmpty && connection.unsent < Self.fill }

        func receive(_ frame: MessageFrame) throws(MessageFrame.Malformed) {
            switch frame.kind {
            case .request, .send: break
            case .bye: throw .init(reason: "it says: \(RunLoop.RemotePort.text(of: frame.data))")
            case .reply, .done, .failure: throw .init(reason: "only a port sends frames of kind \(frame.kind.rawValue)")
            }
            // A number that comes again is a message that would be handled twice.
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
            // Nobody waits for a single "done"; a system call for each would cost more than all the rest.
            if frame.kind == .done, !messages.isEmpty, held < 64 {
                held += 1
            } else {
                held = 0
                connection.flush()
            }
            pauseOrResume()
        }

        /// Nothing follows that would take the held ones along.
        func sendHeld() {
            guard held > 0, messages.isEmpty else { return }
            held = 0
            connection.flush()
        }

        /// The port is gone: what was not delivered never will be.
        func close() {
            connection.close()
            messages = Fifo()
        }

        /// The same, once it has its answers.
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
