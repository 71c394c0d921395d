internal import CLinux

/// Listens to a signal with a descriptor that becomes readable. Several listeners may listen to the same signal.
package final class SignalListener: Sendable {
    package let descriptor: Int32

    /// - Throws: EINVAL for a signal that cannot be caught; EMFILE if there are too many listeners or descriptors.
    package init(_ signal: Int32) throws(SystemError) {
        descriptor = linux_open_signal(signal)
        guard descriptor >= 0 else {
            let error = SystemError("sigaction", "signal \(signal)")
            guard error.errno == ENOSPC else { throw error }
            throw SystemError(
                "sigaction", errno: EMFILE,
                reason: "too many signal functions already (signal \(signal))")
        }
    }

    deinit { linux_close_signal(descriptor) }

    /// Starts or ends listening. While a listener listens, the signal has no other effect. The exception lets a user
    /// end a program that is stuck: a second SIGINT, SIGTERM or SIGQUIT that comes within a second, before the first
    /// was taken, also has its previous effect.
    package func setListening(_ listens: Bool) { linux_hear_signal(descriptor, listens ? 1 : 0) }

    /// Returns the number of signals since the last call.
    package func take() -> Int { Int(clamping: linux_take_signal(descriptor)) }
}
