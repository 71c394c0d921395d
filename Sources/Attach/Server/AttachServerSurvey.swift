internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// Asks the loops of all threads for the functions in which their tasks wait. A busy loop delays the answer by half a
/// second at most.
final class AttachServerSurvey: @unchecked Sendable {
    // Sendable: used on the port's thread only.
    private static let patience = Duration.milliseconds(500)
    private let message: RunLoop.MessagePort.Message
    private let names: [String]
    private var answers: [String?]
    private var timer: RunLoop.Timer?

    private init(_ message: RunLoop.MessagePort.Message, _ names: [String]) {
        self.message = message
        self.names = names
        answers = Array(repeating: nil, count: names.count)
    }

    /// Begins on the port's thread, whose handle is `own`. Answers the message within half a second.
    static func begin(for message: RunLoop.MessagePort.Message, _ own: RunLoop.Handle, main: RunLoop.Handle) {
        let loops = [("main", main)] + LuaHost.threadsByName
        let survey = AttachServerSurvey(message, loops.map(\.0))
        let loop = RunLoop.current
        survey.timer = loop.callBack(at: loop.now + patience, in: [.default]) { _, _ in survey.finish() }
        for (index, (_, loop)) in loops.enumerated() {
            let isThere = loop.perform(in: [.common]) { loop in
                let text = (loop.userInfo as? LuaHost)?.tasksText(orNone: "") ?? ""
                own.perform(in: [.default]) { _ in survey.tell(index, text) }
            }
            if !isThere { survey.tell(index, "") }
        }
    }

    private func tell(_ index: Int, _ text: String) {
        answers[index] = text
        if !answers.contains(nil) { finish() }
    }

    private func finish() {
        guard let timer else { return }
        timer.invalidate()
        self.timer = nil
        var text = ""
        for (name, answer) in zip(names, answers) {
            let name = name.shownInLine
            for line in (answer ?? "its loop does not answer: it is busy").split(separator: "\n") {
                text += "\(name)\t\(line)\n"
            }
        }
        message.answer(text.anyBytes)
    }
}
