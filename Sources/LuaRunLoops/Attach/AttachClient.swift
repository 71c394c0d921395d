internal import Linux
internal import Lua
internal import RunLoops

/// Somebody who has attached: what the port's thread and the one that runs Lua both know of one.
final class AttachClient: @unchecked Sendable {
    // Sendable: what changes is shared under a lock, and the host is only named.
    /// Which of the port's senders it is.
    let number: Int
    let process: Int32
    let outbox: AttachOutbox
    /// Entries up to this number are not to run any more; all of them, once it is gone.
    private let unwanted = Lock(0)
    private let running: Entries

    init(number: Int, process: Int32, running: Entries, outbox: AttachOutbox) {
        self.number = number
        self.process = process
        self.running = running
        self.outbox = outbox
    }

    /// The number of an entry among those of all clients.
    func identity(ofEntry entry: Int) -> UInt64 { UInt64(number) << 32 | UInt64(entry) }

    func isUnwanted(_ entry: Int) -> Bool { unwanted.withLock { $0 >= entry } }
    var isGone: Bool { unwanted.withLock { $0 == .max } }

    /// On the port's thread: an entry, and those before it, are not to go on. That is for code that never lets the
    /// loop turn, and finds nothing to do otherwise.
    func end(entriesUpTo entry: Int) {
        unwanted.withLock { $0 = max($0, entry) }
        running.end(from: identity(ofEntry: 0), to: identity(ofEntry: min(entry, Attach.Entry.lastNumber)))
    }
}
