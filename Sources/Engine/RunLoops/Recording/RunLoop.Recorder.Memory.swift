extension RunLoop.Recorder {
    /// The memory of a recorder. It is freed with the last reference to this object. The loop has a reference, and so
    /// has each reader on another thread, such as a file or a dump.
    // Sendable: each field of the recorder belongs to one thread; other threads read only separate memory.
    package final class Memory: @unchecked Sendable {
        package let recorder: UnsafeMutablePointer<RunLoop.Recorder>

        init(_ poller: Poller) {
            recorder = .allocate(capacity: 1)
            recorder.initialize(to: RunLoop.Recorder(poller))
        }

        deinit {
            recorder.pointee.free()
            recorder.deinitialize(count: 1)
            recorder.deallocate()
        }
    }
}
