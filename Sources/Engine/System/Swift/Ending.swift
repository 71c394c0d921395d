internal import CLinux

/// The end of this process. What is done before it, and in which order, is the list in ending.h.
package enum Ending {
    /// The places in that list where Swift has something to do.
    package enum Act {
        case finishRecording, giveNamesUp, leavePrompt

        fileprivate var act: linux_last_act {
            switch self {
            case .finishRecording: LINUX_FINISH_RECORDING
            case .giveNamesUp: LINUX_GIVE_NAMES_UP
            case .leavePrompt: LINUX_LEAVE_PROMPT
            }
        }
    }

    /// Has a function called once when this process ends by itself, on the thread that ends it, while other threads go on.
    package static func at(_ act: Act, _ function: @convention(c) () -> Void) { linux_at_end(act.act, function) }

    /// Ends the process. No exit handler of a library runs. Any thread may call it.
    package static func end(_ status: Int32) -> Never { linux_end(status) }

    /// The same by a signal, as if nobody had handled that: the parent process sees it.
    package static func die(by signal: Int32) -> Never { linux_end_by(signal) }

    /// Does what is to be done before a signal ends this process: ends programs, and gives terminals back. The caller ends the process.
    /// Safe in a signal handler.
    package static let doLastActs: @convention(c) () -> Void = linux_do_last_acts
}
