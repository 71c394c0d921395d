internal import CLinux
internal import Synchronization

// Messages to other processes, over a network. Both sides record them with a number that no other message has.

extension RunLoop.Recorder {
    /// The upper half of the numbers of all messages of this process: random, and not 0.
    package static let identity = UInt32.random(in: 1...UInt32.max)
    private static let lastMessage = Atomic(UInt32.random(in: 0...UInt32.max))

    /// Returns a number that no other message has. Safe on any thread.
    package static func nextMessage() -> UInt64 {
        UInt64(identity) << 32 | UInt64(lastMessage.wrappingAdd(0x9E37_79B1, ordering: .relaxed).newValue)
    }

    /// Records that a message leaves. Returns the time by the clock of recordings, in nanoseconds.
    mutating func departs(_ object: UInt32, _ message: UInt64) -> UInt64 {
        let clock = linux_monotonic_now()
        moment = stamp()
        tell(Record(.departs, moment, object: object, a: message))
        return usesTicks ? UInt64(max(0, clock)) : moment
    }

    /// Records that a message has arrived.
    ///
    /// - Parameter sentAt: The time of the sender's clock when the message left, in nanoseconds.
    mutating func arrives(_ object: UInt32, _ message: UInt64, sentAt: UInt64) {
        moment = stamp()
        var record = Record(.arrives, moment, object: object, a: message)
        record.sentAt = sentAt
        tell(record)
    }
}

extension RunLoop {
    /// Whether everything is being recorded into a file, and not only the last moments.
    package var isFollowed: Bool { probe.live.map { $0.pointee.reader != nil } ?? false }

    /// Records that a message with this label and number leaves for another process. Returns the time by the clock of
    /// recordings, in nanoseconds; nil if the loop does not record.
    package func noteDeparture(_ label: UInt32, _ message: UInt64) -> UInt64? {
        probe.live.map { $0.pointee.departs(label, message) }
    }

    /// Records the arrival of a message that another process sent at a time of its own clock.
    package func noteArrival(_ label: UInt32, _ message: UInt64, sentAt: UInt64) {
        if isRecording { recorder.pointee.arrives(label, message, sentAt: sentAt) }
    }
}
