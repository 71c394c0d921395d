internal import Glibc
internal import Linux
internal import Lua
internal import RunLoops
internal import Tracing

/// A recording of all loops of the process that is written to a file while it is made. Each thread writes its own
/// records.
final class TraceFile: Sendable {
    let path: String
    private let state: Lock<State>

    private struct State {
        /// nil when the file is complete; this object then still exists until the recorders have noticed that.
        var writer: Recording.Writer?
        /// The position up to which each recorder was read. Retains the recorders: a loop may end before the file does.
        var positions: [ObjectIdentifier: (recorder: RunLoop.Recorder.Memory, at: RunLoop.Recorder.Position)] = [:]
        var isOpen = true
        /// The error that has ended the recording early.
        var failure: SystemError?
    }

    /// The current recording.
    private static let open = Lock<TraceFile?>(nil)
    static var current: TraceFile? { open.withLock { $0 } }

    /// - Parameter limit: The largest size of the file in bytes.
    /// - Throws: EINVAL for a path whose ending `Recording.Format` does not know; EBUSY if another recording is under
    ///   way; the system's error.
    init(path: String, limit: Int) throws(SystemError) {
        self.path = path
        let about = TraceFile.about()
        let writer = try Recording.Writer(path: path, about: about, limit: limit, isSeenAtOnce: true)
        state = Lock(State(writer: writer))
        let other = Self.open.withLock { current in
            if current == nil { current = self }
            return current
        }
        // Another thread may have begun a recording at the same time.
        if let other, other !== self {
            state.withLock { $0.isOpen = false }
            throw Self.isUnderWay(path, other)
        }
        Ending.at(.finishRecording) { TraceFile.finishAtEnd() }
    }

    /// Returns the error for a second recording.
    static func isUnderWay(_ path: String, _ file: TraceFile) -> SystemError {
        SystemError("trace", path, errno: EBUSY, reason: "a recording is already under way, in \(file.path)")
    }

    /// Completes the file at the end of the process.
    private static func finishAtEnd() {
        do throws(SystemError) { try current?.finish() } catch {
            let text = "rlhost: --trace: \(error)\n"
            _ = text.withAnyBytes { Descriptor.write($0, to: 2) }
        }
    }

    static func about(dropped: Int = 0) -> Recording.About {
        .init(title: TraceNames.title, process: TraceNames.process, dropped: dropped, origin: TraceNames.origin)
    }

    var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Begins to record a loop. Called on the loop's thread.
    func join(_ memory: RunLoop.Recorder.Memory, as name: String) {
        let recorder = memory.recorder
        let isNew = state.withLock { state in
            guard state.isOpen, state.positions[ObjectIdentifier(memory)] == nil else { return false }
            state.positions[ObjectIdentifier(memory)] = (memory, .init(now: recorder))
            Self.keepFailure(&state) { (writer) throws(SystemError) in
                try writer.thread(recorder.pointee.number, name)
            }
            return true
        }
        guard isNew else { return }
        recorder.pointee.setReader { [self] in read(ObjectIdentifier(memory)) }
    }

    /// Writes the records of a loop since the last call. Returns whether more records are wanted.
    private func read(_ recorder: ObjectIdentifier) -> Bool {
        state.withLock { state in
            Self.read(recorder, &state)
            return state.isOpen
        }
    }

    private static func read(_ recorder: ObjectIdentifier, _ state: inout State) {
        guard state.isOpen, state.failure == nil, let memory = state.positions[recorder]?.recorder,
            var position = state.positions[recorder]?.at
        else { return }
        let records = RunLoop.Recorder.read(memory.recorder, &position)
        state.positions[recorder]?.at = position
        keepFailure(&state) { (writer) throws(SystemError) in
            try TraceNames.write(records, to: writer)
            try writer.flush()
        }
    }

    private static func keepFailure(
        _ state: inout State, _ body: (Recording.Writer) throws(SystemError) -> Void
    ) {
        guard let writer = state.writer else { return }
        do throws(SystemError) { try body(writer) } catch { state.failure = state.failure ?? error }
    }

    /// Called on a loop's thread before the loop ends.
    func leave(_ memory: RunLoop.Recorder.Memory) {
        memory.recorder.pointee.ends()
        memory.recorder.pointee.dropReader()
        state.withLock { state in
            Self.read(ObjectIdentifier(memory), &state)
            state.positions[ObjectIdentifier(memory)] = nil
        }
    }

    /// Completes the file with all records up to now. Does nothing if the file is complete already.
    ///
    /// - Throws: The error that has kept the file from being complete.
    func finish() throws(SystemError) {
        Self.open.withLock { if $0 === self { $0 = nil } }
        let failure = state.withLock { state -> SystemError? in
            guard state.isOpen else { return nil }
            for recorder in state.positions.keys { Self.read(recorder, &state) }
            state.isOpen = false
            state.positions = [:]
            Self.keepFailure(&state) { (writer) throws(SystemError) in try writer.finish(title: TraceNames.title) }
            state.writer = nil
            return state.failure
        }
        if let failure { throw failure }
    }
}
