internal import CLinux

/// Signals as something to read, for a program that runs nothing but its loop.
package enum Signals {
    /// Has SIGINT, SIGTERM and SIGHUP wait in a descriptor instead of ending the process.
    package static func watch() throws(SystemError) -> Descriptor {
        try Descriptor(linux_watch_signals(), "signalfd")
    }

    /// The number of the next signal there; nil: there is none.
    package static func take(_ descriptor: Int32) -> Int32? {
        let number = linux_take_watched_signal(descriptor)
        return number == 0 ? nil : number
    }
}
