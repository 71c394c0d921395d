extension RunLoop.MessagePort {
    /// A message that somebody has sent. It is answered once, by `answer` or `fail`, at any later time, on the thread of the
    /// port's loop; dropped without an answer, it fails.
    public final class Message {
        public let id: Int32
        public let data: [UInt8]
        /// Whether the sender waits for the answer's data. If not, it is only told that the message was handled.
        public let wantsReply: Bool
        public private(set) var isAnswered = false
        private let conversation: UInt64
        private let client: Client

        init(_ frame: MessageFrame, from client: Client) {
            id = frame.id
            data = frame.data
            wantsReply = frame.kind == .request
            conversation = frame.conversation
            self.client = client
        }

        deinit { if !isAnswered, !portHasEnded { fail("the message was not answered") } }

        /// The process that sent it.
        public var process: Int32 { client.connection.process }
        /// Which of all connections that the port ever had it came by, counted from 1; see `departed`.
        public var sender: Int { client.number }
        /// Whether that connection is still there: nobody gets the answer otherwise.
        public var isSenderConnected: Bool { !client.connection.hasEnded }

        /// The port has ended in this message's callback. It can be answered until that returns.
        public var portHasEnded: Bool { client.isLeaving }

        func flow(to port: String) -> UInt32 {
            MessageFrame.flow(of: process, to: port, conversation: conversation)
        }

        /// Says that it was handled. Only the first answer counts.
        ///
        /// - Parameter reply: for a sender that wants one; no longer than `longestMessage`, or the message fails instead.
        public func answer(_ reply: [UInt8] = []) {
            guard reply.count <= MessageFrame.longest else {
                return fail("the answer has \(reply.count) bytes; \(MessageFrame.longest) can be sent")
            }
            conclude(
                MessageFrame(
                    kind: wantsReply ? .reply : .done, conversation: conversation, id: id, data: wantsReply ? reply : []
                ))
        }

        /// Tells the sender that it could not be handled.
        public func fail(_ reason: String) {
            // Long enough for a sentence; a port's traceback is nothing for others.
            let text = Array(reason.utf8.prefix(1000))
            conclude(MessageFrame(kind: .failure, conversation: conversation, id: id, data: text))
        }

        private func conclude(_ frame: MessageFrame) {
            guard !isAnswered else { return }
            isAnswered = true
            client.answer(frame, for: data.count)
        }
    }
}
