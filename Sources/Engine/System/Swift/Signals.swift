internal import CLinux

/// Signals through a descriptor, for a program that only runs its loop.
package enum Signals {
    /// Makes SIGINT, SIGTERM and SIGHUP, and optionally SIGQUIT, queue in a descriptor instead of ending the process.
    package static func watch(quits: Bool = false) throws(SystemError) -> Descriptor {
        try Descriptor(linux_watch_signals(quits ? 1 : 0), "signalfd")
    }

    /// Returns the number of the next queued signal; nil if there is none.
    package static func take(_ descriptor: Int32) -> Int32? {
        let number = linux_take_watched_signal(descriptor)
        return number == 0 ? nil : number
    }

    /// Calls `body` and exits with the status that it returns. In process 1, `body` runs on a second thread, while the
    /// first one waits for orphans.
    package static func runMain(_ body: @convention(c) () -> Int32) -> Never { linux_run_main(body) }
}
