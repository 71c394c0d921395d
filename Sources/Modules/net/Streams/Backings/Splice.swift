internal import CStreams
internal import Glibc
internal import RunLoops

/// Copies from one stream to another within the kernel, as far as its maker asks: bytes of a file by sendfile, those of sockets
/// and pipes by splice.
///
/// Between two sockets the kernel wants a pipe. What is in it when the copying ends is not lost: it goes out as if it had been
/// written. Not thread-safe: it belongs to the streams' loop.
public final class Splice {
    public let from: Stream
    public let to: Stream
    private let network: Network
    private let file: FileBacking?
    /// Between two sockets; -1 where one end is a pipe itself, or a file.
    private var inlet: Int32 = -1
    private var outlet: Int32 = -1
    /// How many bytes are in the pipe.
    private var waiting = 0
    /// What a thread has done with the file.
    private var answer: Int?
    private var isOver = false
    private var hasBegun = false

    /// What one step has brought.
    public enum Step {
        /// So many bytes; 0: the input is at its end.
        case moved(Int)
        /// There is nothing to be read: wait for `Stream.Unit.readiness`.
        case waitsForInput
        /// Nothing more is taken now: wait until nothing is left to send.
        case waitsForOutput
        /// The kernel cannot, with these two: read and write.
        case impossible
        case failed(StreamFailure)
    }

    /// nil where the kernel cannot help: with TLS, in memory, with terminals.
    public init?(from: Stream, to: Stream) {
        func isPlain(_ stream: Stream) -> Bool {
            stream.tls == nil && stream.state == .open && (stream.transport == .socket || stream.transport == .pipe)
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

    /// Moves at most so many bytes, more than 0. Does not wait.
    public func step(limit: Int) -> Step {
        guard !isOver else { return .impossible }
        // What was read ahead, or is still to be written, comes first.
        if !from.input.isEmpty || from.tls != nil || to.tls != nil { return .impossible }
        if let failure = to.refusalToWrite { return .failed(failure) }
        if !to.output.isEmpty { to.send() }
        if let failure = to.outputFailure { return .failed(failure) }
        guard to.unsent == 0 else { return .waitsForOutput }
        if let file { return step(file, limit) }
        if waiting > 0 { return push() }
        // Nothing is taken for a peer that has gone before.
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
        // A pipe that is full says the same as one that has nothing to give.
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

    /// From the pipe to where it is to go.
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

    /// The disk may take its time: a thread waits for it.
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
                // Between the thread's word and this there may have been room, of which the loop has been told already.
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
        // Its duplicates last as long as the thread works.
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

    /// No more is copied. Calling it again does nothing.
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
