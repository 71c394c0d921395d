internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// Somebody who has attached: what the port's thread and the one that runs Lua both know of one.
final class AttachClient: @unchecked Sendable {
    // Sendable: what changes is shared under a lock, and the host is only named.
    /// Which of the port's senders it is.
    let number: Int
    let process: Int32
    let outbox: AttachOutbox
    private let progress = Lock(Progress())
    private let running: Entries

    private struct Progress {
        /// Entries up to this number are not to run any more; all of them, once the client is gone.
        var unwanted = 0
        /// The latest that has begun.
        var begun = 0
        /// Those up to this number, beyond what has begun, never will: the client has been told so.
        var dropped = 0
    }

    init(number: Int, process: Int32, running: Entries, outbox: AttachOutbox) {
        self.number = number
        self.process = process
        self.running = running
        self.outbox = outbox
    }

    /// The number of an entry among those of all clients.
    func identity(ofEntry entry: Int) -> UInt64 { UInt64(number) << 32 | UInt64(entry) }

    func isUnwanted(_ entry: Int) -> Bool { progress.withLock { $0.unwanted >= entry } }
    var isGone: Bool { progress.withLock { $0.unwanted == .max } }

    /// On the thread that runs Lua: an entry is about to begin. Returns false if it has been taken back.
    func begins(_ entry: Int) -> Bool {
        progress.withLock { progress in
            guard entry > progress.dropped else { return false }
            progress.begun = entry
            return true
        }
    }

    /// On the port's thread: entries are not to go on. Those of them that have not begun never will, and the client is told
    /// so at once: the process may be busy for long.
    ///
    /// - Parameter last: the latest that the client has sent.
    func end(entriesUpTo entry: Int, last: Int) {
        let dropped = progress.withLock { progress in
            progress.unwanted = max(progress.unwanted, entry)
            let first = max(progress.begun, progress.dropped) + 1
            guard first <= last else { return 0..<0 }
            progress.dropped = last
            return first..<last + 1
        }
        for entry in dropped {
            outbox.append(.error, "interrupted!\n")
            outbox.append(.ended, "\(entry) interrupted")
        }
        pursue()
    }

    /// For code that never lets the loop turn; finds nothing to do otherwise. Returns whether an entry of this client's runs.
    ///
    /// - Parameter atAnyPrice: it has been asked to end before, and runs on.
    @discardableResult
    func pursue(atAnyPrice: Bool = false) -> Bool {
        let force: Entries.Force = atAnyPrice ? .pursued : isGone ? .pressed : .asked
        let unwanted = min(progress.withLock { $0.unwanted }, Attach.Entry.lastNumber)
        return running.end(from: identity(ofEntry: 1), to: identity(ofEntry: unwanted), force)
    }
}
