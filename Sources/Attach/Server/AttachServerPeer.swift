internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// A client that has attached: the state that the port's thread and the Lua thread share.
final class AttachServerPeer: @unchecked Sendable {
    // Sendable: a lock guards the shared state, and the host is only referred to.
    /// The number of this sender at the port.
    let number: Int
    let process: Int32
    let outbox: AttachServerOutbox
    private let progress = Lock(Progress())
    private let running: Entries

    private struct Progress {
        /// Entries up to this number are unwanted: they must not begin, and a running one must end. When the client has
        /// disconnected, all entries are unwanted.
        var unwanted = 0
        /// The number of the latest entry that has begun.
        var begun = 0
        /// Entries after `begun`, up to this number, will never begin. The client has been notified.
        var dropped = 0
    }

    init(number: Int, process: Int32, running: Entries, outbox: AttachServerOutbox) {
        self.number = number
        self.process = process
        self.running = running
        self.outbox = outbox
    }

    /// Returns a number for an entry that no entry of another client has.
    func identity(ofEntry entry: Int) -> UInt64 { UInt64(number) << 32 | UInt64(entry) }

    func isUnwanted(_ entry: Int) -> Bool { progress.withLock { $0.unwanted >= entry } }
    var isGone: Bool { progress.withLock { $0.unwanted == .max } }

    /// On the Lua thread: called before an entry begins. Returns false if the entry was withdrawn.
    func begins(_ entry: Int) -> Bool {
        progress.withLock { progress in
            guard entry > progress.dropped else { return false }
            progress.begun = entry
            return true
        }
    }

    /// On the port's thread: ends entries. Entries that have not begun never will; the client is notified at once,
    /// because the process may be busy for long.
    ///
    /// - Parameter last: The latest entry that the client has sent.
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

    /// Interrupts an unwanted entry that is running, since its code may never return to the loop; otherwise does
    /// nothing. Returns whether an entry of this client runs.
    ///
    /// - Parameter atAnyPrice: Whether the entry was asked to end before, and continues to run.
    @discardableResult
    func pursue(atAnyPrice: Bool = false) -> Bool {
        let force: Entries.Force = atAnyPrice ? .pursued : isGone ? .pressed : .asked
        let unwanted = min(progress.withLock { $0.unwanted }, Attach.Entry.lastNumber)
        return running.end(from: identity(ofEntry: 1), to: identity(ofEntry: unwanted), force)
    }
}
