extension RunLoop.Recorder {
    /// A recorder's memory. It is freed when nobody has it any more: neither the loop that writes it, nor a file, a dump or anybody else
    /// who reads it on another thread.
    // Sendable: see the thread that each of the recorder's members belongs to; what other threads read is in memory of its own.
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
