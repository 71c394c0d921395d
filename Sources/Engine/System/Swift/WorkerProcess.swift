internal import CLinux

/// A process in which tests run, as the runner has started it.
package enum WorkerProcess {
    /// This process becomes one: it gets a keeper, who cleans up behind it and dies with the runner, and prints line by line.
    package static func become() { linux_become_worker() }

    /// Begins this process anew, with addresses that are the same in each run. To be called first of all.
    ///
    /// - Returns: whether they are: not where the system forbids it.
    package static func fixAddresses() -> Bool { linux_fix_addresses() != 0 }

    /// Begins to count what a test takes. On the main thread.
    package static func beginCount() { linux_begin_count() }

    /// The seconds that it has taken: processor time, and real waiting. On the main thread, in a signal handler, too.
    package static var secondsTaken: Double { linux_seconds_taken() }

    /// The descriptor on which the runner talks to it.
    package static var channel: Int32 { linux_worker_channel() }

    /// What its standard output was at the beginning.
    package static var output: Int32 { linux_worker_output() }

    /// Has a function called when a fault, or the runner, is about to end the process: in the middle of anything, so what it does is worth
    /// a try and no more. nil: no longer.
    package static func setLastWords(_ words: (@convention(c) () -> Void)?) { linux_set_last_words(words) }

    /// Makes descriptor 1 the standard output again; returns whether it was something else.
    package static func restoreOutput() -> Bool { linux_restore_output() != 0 }

    /// Notes the current directory, the environment, the locale and the signals that are ignored.
    package static func noteState() { linux_note_state() }

    /// Puts them back; returns what had changed.
    package static func restoreState() -> [String] {
        var changes: [String] = []
        withUnsafeMutablePointer(to: &changes) { changes in
            linux_restore_state(changes) { context, text in
                guard let context, let text else { return }
                context.assumingMemoryBound(to: [String].self).pointee.append(String(cString: text))
            }
        }
        return changes
    }

    /// Sets the time zone; nil: that of the system.
    package static func setZone(_ name: String?) {
        if let name { linux_set_zone(name) } else { linux_set_zone(nil) }
    }
}
