extension RunLoop.MessagePort {
    /// A message that was received. A message is answered once, by `answer` or `fail`, at any later time, on the thread
    /// of the port's loop. Deallocating it without an answer counts as `fail`.
    public final class Message {
        /// A number from the sender.
        public let id: Int32
        /// At most `longestMessage` bytes.
        public let data: [UInt8]
        /// Whether the sender waits for the data of an answer. If false, the answer only reports to the sender that the
        /// message was handled.
        public let wantsReply: Bool
        /// Whether `answer` or `fail` was called.
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

        /// The number of the process that sent the message.
        public var process: Int32 { client.connection.process }
        /// The number of the sender's connection; the port numbers its connections from 1. See `departed`.
        public var sender: Int { client.number }
        /// Whether the sender's connection still exists. Answers to a sender without a connection are dropped.
        public var isSenderConnected: Bool { !client.connection.hasEnded }

        /// Whether the port has become invalid during this message's callback. The message can be answered until the
        /// callback returns.
        public var portHasEnded: Bool { client.isLeaving }

        func flow(to port: String) -> UInt32 {
            MessageFrame.flow(of: process, to: port, conversation: conversation)
        }

        /// Answers that the message was handled. Only the first answer counts.
        ///
        /// - Parameter reply: The data for a sender that wants a reply. If it is longer than `longestMessage`, the
        ///   message fails instead.
        public func answer(_ reply: [UInt8] = []) {
            guard reply.count <= MessageFrame.longest else {
                return fail("the answer has \(reply.count) bytes; \(MessageFrame.longest) can be sent")
            }
            conclude(
                MessageFrame(
                    kind: wantsReply ? .reply : .done, conversation: conversation, id: id, data: wantsReply ? reply : []
                ))
        }

        /// Answers that the message could not be handled.
        public func fail(_ reason: String) {
            // Long enough for a sentence; other programs have no use for a traceback.
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
