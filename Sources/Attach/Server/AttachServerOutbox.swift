internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The queue of events for an attached client. The Lua thread fills it, and the port's thread empties it.
///
/// Printing waits a little for a slow client, so that even code that never returns to the loop can print a lot. After
/// that time, further output is dropped. After the queued output, the client gets the number of dropped bytes.
final class AttachServerOutbox: @unchecked Sendable {
    // Sendable: everything that changes is used only between lock and unlock.
    private let changed = Condition()
    private var bytes: [UInt8] = []
    private var start = 0
    /// The offset of the last event, if more output may be appended to it.
    private var lastOutput: Int?
    private var isOpen = true
    private var isSlow = false
    private var dropped = 0
    private var isAnnounced = false
    /// Called when there are events to take. Not called again until `take` has found no more events.
    private let announce: @Sendable () -> Void

    /// The number of queued bytes beyond which printing waits, and the longest wait in milliseconds.
    static let limit = 4 << 20
    static let patience = 1000
    /// The limit, in bytes, for an entry whose output must not be lost. Beyond this limit, printing waits until the
    /// client has taken half of the queue, or is gone.
    static let wholeLimit = 64 << 20
    /// Returns whether the printing entry is still wanted. Set by the Lua thread while such an entry prints; called
    /// during the wait.
    var isWanted: (() -> Bool)?

    init(announce: @escaping @Sendable () -> Void) { self.announce = announce }

    private var count: Int { bytes.count - start }

    func append(_ event: Attach.Event, _ text: String = "") {
        text.withAnyBytes { append(event, $0) }
    }

    func append(_ event: Attach.Event, _ new: UnsafeRawBufferPointer) {
        changed.lock()
        guard isOpen, event != .output || hasRoom(for: new.count) else {
            changed.unlock()
            return
        }
        add(event, new)
        let isNews = !isAnnounced
        isAnnounced = true
        changed.unlock()
        if isNews { announce() }
    }

    /// Waits for room. If there is no room, counts the bytes as lost.
    private func hasRoom(for size: Int) -> Bool {
        if let isWanted {
            guard count > Self.wholeLimit else { return isOpen }
            while isOpen, count > Self.wholeLimit / 2, isWanted() {
                _ = changed.wait(until: RunLoop.Instant.now.nanoseconds + 100_000_000)
            }
            return isOpen
        }
        if !isSlow, count > Self.limit {
            let end = RunLoop.Instant.now.nanoseconds + Int64(Self.patience) * 1_000_000
            while isOpen, count > Self.limit / 2 {
                if !changed.wait(until: end) { break }
            }
            isSlow = count > Self.limit / 2
        }
        if isSlow { dropped += size }
        return isOpen && !isSlow
    }

    private func add(_ event: Attach.Event, _ new: UnsafeRawBufferPointer) {
        var rest = new[...]
        repeat {
            // Output comes in small pieces, which are joined.
            if event == .output, let last = lastOutput {
                let length = Attach.number(bytes[(last + 1)...])
                let more = rest.prefix(max(0, Attach.longestPiece - length))
                var head: [UInt8] = []
                Attach.append(UInt32(length + more.count), to: &head)
                for (offset, byte) in head.enumerated() { bytes[last + 1 + offset] = byte }
                bytes.append(contentsOf: more)
                rest = rest.dropFirst(more.count)
                if rest.isEmpty { return }
            }
            let piece = rest.prefix(Attach.longestPiece)
            lastOutput = event == .output ? bytes.count : nil
            Attach.append(event, piece, to: &bytes)
            rest = rest.dropFirst(piece.count)
        } while !rest.isEmpty
    }

    /// Returns complete events, of about `most` bytes together; nil if there are none.
    func take(_ most: Int = 256 << 10) -> [UInt8]? {
        changed.lock()
        defer { changed.unlock() }
        if isSlow, count <= Self.limit / 2 {
            isSlow = false
            let text = "\(dropped) bytes of output are lost: the client did not take them fast enough"
            dropped = 0
            text.withAnyBytes { add(.notice, $0) }
        }
        guard count > 0 else {
            isAnnounced = false
            return nil
        }
        var end = start
        while end < bytes.count, end - start < most { end += 5 + Attach.number(bytes[(end + 1)...]) }
        let taken = Array(bytes[start..<end])
        start = end
        if start == bytes.count {
            bytes = []
            start = 0
        } else if start > 1 << 20 {
            bytes.removeSubrange(..<start)
            start = 0
        }
        lastOutput = nil
        changed.broadcast()
        return taken
    }

    var isEmpty: Bool {
        changed.lock()
        defer { changed.unlock() }
        return count == 0
    }

    /// Called when the client is gone: from now on printing does not wait, and its output is dropped.
    func close() {
        changed.lock()
        isOpen = false
        bytes = []
        start = 0
        changed.broadcast()
        changed.unlock()
    }
}
