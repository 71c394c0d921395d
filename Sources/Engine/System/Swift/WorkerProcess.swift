internal import CLinux

/// The worker process of a test runner, in which tests run.
package enum WorkerProcess {
    /// Makes this process a worker: it gets a keeper process, which cleans up after it and ends with the runner, and it
    /// prints line by line.
    package static func become() { linux_become_worker() }

    /// Restarts this process with addresses that are the same in each run. Call it before anything else.
    ///
    /// - Returns: Whether addresses are fixed; false if the system forbids it.
    package static func fixAddresses() -> Bool { linux_fix_addresses() != 0 }

    /// Begins to count the time of a test. Only on the main thread.
    package static func beginCount() { linux_begin_count() }

    /// The time of the test so far, in seconds: processor time and real waiting. Only on the main thread; safe in a
    /// signal handler.
    package static var secondsTaken: Double { linux_seconds_taken() }

    /// The descriptor of the channel to the runner.
    package static var channel: Int32 { linux_worker_channel() }

    /// A duplicate of descriptor 1, made at the start.
    package static var output: Int32 { linux_worker_output() }

    /// Sets a function that is called when a fault or the runner is about to end the process. The function interrupts
    /// arbitrary code, so it may fail. Nil removes the function.
    package static func setLastWords(_ words: (@convention(c) () -> Void)?) { linux_set_last_words(words) }

    /// Makes descriptor 1 the standard output again. Returns whether the script had replaced it.
    package static func restoreOutput() -> Bool { linux_restore_output() != 0 }

    /// Remembers the current directory, the environment, the locale and the ignored signals.
    package static func noteState() { linux_note_state() }

    /// Restores the remembered state. Returns a text for each change.
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

    /// Sets the time zone; nil for that of the system.
    package static func setZone(_ name: String?) {
        if let name { linux_set_zone(name) } else { linux_set_zone(nil) }
    }
}
