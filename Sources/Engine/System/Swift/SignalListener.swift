internal import CLinux

/// Hears of a signal, by a descriptor that becomes readable. Any number of them may listen to one signal.
package final class SignalListener: Sendable {
    package let descriptor: Int32

    /// - Throws: EINVAL for a signal that cannot be caught; EMFILE when there are too many listeners, or descriptors.
    package init(_ signal: Int32) throws(SystemError) {
        descriptor = linux_open_signal(signal)
        guard descriptor >= 0 else {
            let error = SystemError("sigaction", "signal \(signal)")
            guard error.errno == ENOSPC else { throw error }
            throw SystemError(
                "sigaction", errno: EMFILE,
                reason: "there are too many functions for signals already (signal \(signal))")
        }
    }

    deinit { linux_close_signal(descriptor) }

    /// While anybody listens, the signal does nothing else; except that a second SIGINT, SIGTERM or SIGQUIT within a second, when nobody
    /// has taken the first, does what it did before: so a program that is stuck can be ended.
    package func setListening(_ listens: Bool) { linux_hear_signal(descriptor, listens ? 1 : 0) }

    /// How many have come since the last time.
    package func take() -> Int { Int(clamping: linux_take_signal(descriptor)) }
}
