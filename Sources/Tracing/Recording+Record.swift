package import RunLoops

extension Recording {
    /// One thing that happened, as a loop's recorder has it. The time is that of CLOCK_MONOTONIC, or of a virtual clock.
    package typealias Record = RunLoop.Recorder.Record
}

extension RunLoop.Recorder.Record {
    package typealias Kind = RunLoop.Recorder.Kind
    package typealias Flags = RunLoop.Recorder.Flags
    package typealias Wake = RunLoop.Recorder.Wake

    /// Bytes of one record.
    package static let size = 32

    package init(
        time: UInt64, kind: Kind, flags: UInt8 = 0, thread: UInt16 = 0, object: UInt32 = 0, a: UInt64 = 0,
        flow: UInt32 = 0, task: UInt32 = 0
    ) {
        self.init(kind, time, flags: flags, object: object, a: a, flow: flow, task: task)
        self.thread = thread
    }

    /// Of bytes that need not be aligned.
    package init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        self = bytes.loadUnaligned(fromByteOffset: offset, as: Self.self)
    }
}
