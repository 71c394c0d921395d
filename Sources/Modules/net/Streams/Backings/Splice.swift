internal import CStreams
internal import Glibc
internal import RunLoops

/// Copies from one stream to another within the kernel, one `step` at a time: from files by sendfile, between sockets
/// and pipes by splice.
///
/// The kernel needs a pipe between two sockets. Bytes that are left in this pipe when copying ends are written to the
/// output. Not thread-safe: it belongs to the streams' loop.
public final class Splice {
    public let from: Stream
    public let to: Stream
    private let network: Network
    private let file: FileBacking?
    /// The pipe between two sockets; -1 if one end is a pipe or a file itself.
    private var inlet: Int32 = -1
    private var outlet: Int32 = -1
    /// Bytes in the pipe.
    private var waiting = 0
    /// The result of a thread's work on the file.
    private var answer: Int?
    private var isOver = false
    private var hasBegun = false

    /// The result of one step.
    public enum Step {
        /// The number of bytes; 0: the input has ended.
        case moved(Int)
        /// The input is empty: wait for `Stream.Unit.readiness`.
        case waitsForInput
        /// The output is full: wait until nothing is left to send.
        case waitsForOutput
        /// The kernel cannot copy between these two: use read and write.
        case impossible
        case failed(StreamFailure)
    }

    /// Returns nil if the kernel cannot copy: with TLS, for streams in memory, for terminals. Also returns nil for
    /// descriptors that block, since the kernel would wait.
    public init?(from: Stream, to: Stream) {
        func isPlain(_ stream: Stream) -> Bool {
            var isNonblocking: Int32 = 0
            guard stream.tls == nil, stream.state == .open else { return false }
            guard stream.transport == .socket else { return stream.transport == .pipe }
            return net_kind_of(stream.fdToClose, &isNonblocking) >= 0 && isNonblocking != 0
        }
        file = from.backing as? FileBacking
        guard from !== to, isPlain(to), file != nil || isPlain(from) else { return nil }
        self.from = from
        self.to = to
        network = to.network
        if file == nil, from.transport == .socket, to.transport == .socket {
            var ends: [Int32] = [-1, -1]
            guard net_pipe(&ends) == 0 else { return nil }
            (outlet, inlet) = (ends[0], ends[1])
        }
    }

    deinit { finish() }

    /// Moves at most `limit` bytes (more than 0), without waiting.
    public func step(limit: Int) -> Step {
        guard !isOver else { return .impossible }
        // Bytes that the streams have buffered would be overtaken: unsent output is sent first, and buffered input
        // makes a copy in the kernel impossible.
        if !from.input.isEmpty || from.tls != nil || to.tls != nil { return .impossible }
        if let failure = to.refusalToWrite { return .failed(failure) }
        if !to.output.isEmpty { to.send() }
        if let failure = to.outputFailure { return .failed(failure) }
        guard to.unsent == 0 else { return .waitsForOutput }
        if let file { return step(file, limit) }
        if waiting > 0 { return push() }
        // Input must not be consumed for a peer that has already closed its end.
        if !hasBegun, hasGone(to) {
            to.failOutput(StreamFailure(errno: EPIPE, to.subject))
            return .failed(to.outputFailure ?? to.closedFailure)
        }
        hasBegun = true
        if from.inputEnded { return .moved(0) }
        if let failure = from.inputFailure { return .failed(failure) }
        guard from.isOpen else { return .failed(from.closedFailure) }
        guard from.readable else { return .waitsForInput }
        let isDirect = inlet < 0
        // A full output pipe and an empty input both report EAGAIN.
        if isDirect, !to.writable { return waitForOutput() }
        let n = Int(net_splice(from.fdToClose, isDirect ? to.fdToClose : inlet, min(limit, 1 << 20)))
        if n > 0 {
            from.didRead(n)
            guard isDirect else {
                waiting = n
                return push()
            }
            to.didWrite(n)
            return .moved(n)
        }
        if n == 0 {
            from.inputEnded = true
            return .moved(0)
        }
        if n == -Int(EINVAL) { return .impossible }
        guard n == -Int(EAGAIN) else {
            if n == -Int(EPIPE) {
                to.failOutput(StreamFailure(errno: EPIPE, to.subject))
                return .failed(to.outputFailure ?? to.closedFailure)
            }
            from.fail(input: StreamFailure(errno: Int32(clamping: -n), from.subject))
            return .failed(from.inputFailure ?? from.closedFailure)
        }
        if isDirect, net_is_ready(from.fdToClose, 0) != 0 { return waitForOutput() }
        from.readable = false
        return .waitsForInput
    }

    private func hasGone(_ stream: Stream) -> Bool {
        var state = pollfd(fd: stream.fdToClose, events: Int16(POLLOUT), revents: 0)
        return poll(&state, 1, 0) == 1 && Int32(state.revents) & (POLLERR | POLLHUP) != 0
    }

    /// Moves bytes from the pipe to the output.
    private func push() -> Step {
        let n = to.writable ? Int(net_splice(outlet, to.fdToClose, waiting)) : -Int(EAGAIN)
        if n > 0 {
            waiting -= n
            to.didWrite(n)
            return .moved(n)
        }
        if n == -Int(EAGAIN) || n == 0 { return waitForOutput() }
        to.failOutput(StreamFailure(errno: Int32(clamping: -n), to.subject))
        return .failed(to.outputFailure ?? to.closedFailure)
    }

    private func waitForOutput() -> Step {
        to.writable = false
        to.isFedByKernel = true
        to.updateActivity()
        return .waitsForOutput
    }

    // MARK: Files

    /// The disk may block: a thread makes the call.
    private func step(_ file: FileBacking, _ limit: Int) -> Step {
        if let done = answer {
            answer = nil
            if done > 0 {
                from.didRead(done)
                to.didWrite(done)
                return .moved(done)
            }
            switch -done {
            case 0:
                from.inputEnded = true
                return .moved(0)
            case Int(EAGAIN):
                // Look again: the output may have had room since the thread's call, in an event that the loop has
                // already handled.
                if net_is_ready(to.fdToClose, 1) == 0 { return waitForOutput() }
                to.writable = true
            case Int(EINVAL), Int(ENOSYS): return .impossible
            default:
                let failure = StreamFailure(errno: Int32(clamping: -done), to.subject)
                to.failOutput(failure)
                return .failed(failure)
            }
        }
        guard from.isOpen else { return .failed(from.closedFailure) }
        guard file.isUntouched, to.writable else { return file.isUntouched ? waitForOutput() : .impossible }
        // Threads use duplicates, which may outlive the streams' descriptors.
        (from.isShared, to.isShared) = (true, true)
        let source = net_duplicate(from.fdToClose)
        guard source >= 0 else { return .impossible }
        let target = net_duplicate(to.fdToClose)
        guard target >= 0 else {
            net_close(source)
            return .impossible
        }
        let count = min(limit, 1 << 20)
        to.isFedByThread = true
        let failure = network.files.run(
            FileBacking.pool,
            {
                let done = Int(net_send_file(target, source, count))
                net_close(source)
                net_close(target)
                return done
            },
            then: { [weak self, to] done in
                to.isFedByThread = false
                self?.answer = done
                to.signal()
                to.updateActivity()
            })
        guard failure == 0 else {
            to.isFedByThread = false
            net_close(source)
            net_close(target)
            return .impossible
        }
        to.updateActivity()
        return .waitsForOutput
    }

    /// Ends copying. Calling it again does nothing.
    public func finish() {
        guard !isOver else { return }
        isOver = true
        to.isFedByKernel = false
        if waiting > 0 {
            withUnsafeTemporaryAllocation(byteCount: 65536, alignment: 8) { buffer in
                guard let start = buffer.baseAddress else { return }
                while waiting > 0 {
                    let n = Int(net_read(outlet, start, buffer.count))
                    guard n > 0 else { break }
                    waiting -= n
                    to.enqueue(UnsafeRawBufferPointer(start: start, count: n))
                }
            }
        }
        if inlet >= 0 { net_close(inlet) }
        if outlet >= 0 { net_close(outlet) }
        to.updateActivity()
    }
}
