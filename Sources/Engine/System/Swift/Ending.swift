internal import CLinux

/// The end of this process. The list in ending.h has everything that must be done before the end, in order.
package enum Ending {
    /// The entries of that list for which Swift code runs.
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

    /// Sets a function that is called once when this process ends by itself, on the thread that ends it, while other
    /// threads continue.
    package static func at(_ act: Act, _ function: @convention(c) () -> Void) { linux_at_end(act.act, function) }

    /// Ends the process, without exit handlers of libraries. Safe on any thread.
    package static func end(_ status: Int32) -> Never { linux_end(status) }

    /// Ends the process by the default action of a signal, which the parent process sees.
    package static func die(by signal: Int32) -> Never { linux_end_by(signal) }

    /// Does the work that comes before a signal ends this process: it ends programs and restores terminals. The caller
    /// must then end the process. Safe in a signal handler.
    package static let doLastActs: @convention(c) () -> Void = linux_do_last_acts
}
