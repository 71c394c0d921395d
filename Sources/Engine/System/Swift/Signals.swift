internal import CLinux

/// Signals as something to read, for a program that runs nothing but its loop.
package enum Signals {
    /// Has SIGINT, SIGTERM and SIGHUP, and on request SIGQUIT, wait in a descriptor instead of ending the process.
    package static func watch(quits: Bool = false) throws(SystemError) -> Descriptor {
        try Descriptor(linux_watch_signals(quits ? 1 : 0), "signalfd")
    }

    /// The number of the next signal there; nil: there is none.
    package static func take(_ descriptor: Int32) -> Int32? {
        let number = linux_take_watched_signal(descriptor)
        return number == 0 ? nil : number
    }

    /// Runs the program, and exits with what `body` returns. In process 1 that is on a second thread, while the first one waits for orphans.
    package static func runMain(_ body: @convention(c) () -> Int32) -> Never { linux_run_main(body) }
}
