internal import CStreams
internal import Glibc
internal import RunLoops

extension Stream {
    /// The amount that one read returns.
    public enum Unit: Equatable {
        /// Any available bytes: at least one, at most the limit.
        case any
        /// Exactly this number of bytes.
        case exactly(Int)
        /// Exactly this number of bytes, and after them the bytes of the ending, which are not returned.
        case exactlyAnd(Int, Ending)
        /// Exactly this number of bytes, which stay in the buffer.
        case peek(Int)
        /// All available bytes, as soon as there are more than this number. The bytes stay in the buffer.
        case more(Int)
        /// A head, and the number of bytes that it announces. The limit is for that number.
        case frame(FrameHead)
        /// Up to a line feed, without it and a carriage return before it; the last line may lack the line feed. The
        /// limit is for the line's length.
        case line
        /// Up to a delimiter, without it. The limit is for the bytes before it.
        case until(Ending)
        /// Up to one of several delimiters, the one that is complete first; `Network.which` is its number. The limit is
        /// for the bytes before it.
        case untilOneOf(Ends)
        /// Everything to the end, perhaps nothing; at most the limit.
        case all
        /// TLS's handshake: returns no bytes when it is done.
        case handshake
        /// Returns no bytes as soon as something can be read.
        case readiness
    }

    /// The result of a read. Bytes are valid until a stream of this loop reads again.
    public enum Outcome {
        case bytes(UnsafeRawBufferPointer)
        /// The input has ended, and nothing is left.
        case end
        case failed(StreamFailure)
        /// Only a read with a time limit can have this outcome.
        case timedOut
    }

    /// The largest number of reads in one turn, after which other items have their turns.
    private static let turn = 16

    /// Reads a unit if it has arrived; nil if the caller has to wait.
    public func attempt(_ unit: Unit, limit: Int) -> Outcome? {
        if state == .open {
            if case .handshake = unit { return attemptHandshake() }
            if case .readiness = unit, readable || !input.isEmpty {
                return .bytes(UnsafeRawBufferPointer(start: nil, count: 0))
            }
        }
        if !input.isEmpty {
            if let outcome = match(unit, limit) { return outcome }
        } else {
            input.freeIfEmpty()
            searched = 0
        }
        guard state == .open else {
            if let inputFailure { return .failed(inputFailure) }
            return state == .connecting || state == .idle ? nil : .failed(closedFailure)
        }
        var rounds = 0
        while true {
            if inputEnded { return atEnd(unit, limit) }
            if let inputFailure { return .failed(inputFailure) }
            guard readable else { return nil }
            guard rounds < Self.turn else {
                signal()
                return nil
            }
            rounds += 1
            let wasEmpty = input.isEmpty
            let n: Int
            let place: UnsafeMutableRawPointer
            if wasEmpty {
                place = network.scratch
                n = fill(place, Network.scratchSize)
            } else {
                let room = roomWanted(unit)
                // Bytes that have already arrived can still be read, in smaller pieces.
                guard let free = input.reserve(room) else { return .failed(StreamFailure(errno: ENOMEM, subject)) }
                place = free
                n = fill(place, room)
            }
            guard n > 0 else {
                if transport == .backed, let refusal = backing?.takeRefusal() {
                    readable = true
                    return .failed(refusal)
                }
                if n == 0 || n == -Int(EAGAIN) { continue }
                fail(input: StreamFailure(errno: Int32(clamping: -n), subject))
                if let inputFailure { return .failed(inputFailure) }
                continue
            }
            didRead(n)
            if wasEmpty {
                if let outcome = matchFresh(UnsafeRawBufferPointer(start: place, count: n), unit, limit) {
                    return outcome
                }
            } else {
                input.grow(n)
                if let outcome = match(unit, limit) { return outcome }
            }
        }
    }

    private func roomWanted(_ unit: Unit) -> Int {
        if let n = whole(unit), n > input.count { return min(max(n - input.count, 16384), 1 << 20) }
        return Network.scratchSize
    }

    /// Reads from TLS or the descriptor, and notes the result. Returns 0 at the end; or a negative error number, EAGAIN
    /// if there is nothing for now.
    private func fill(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int {
        guard let tls else {
            let n = receive(place, room)
            guard n == 0 else { return n }
            // A failed write has cut the connection: for the reader that is a failure, too, and not the end.
            if let outputFailure, outputFailure.code != "EPIPE" {
                fail(input: outputFailure)
                return -Int(EAGAIN)
            }
            inputEnded = true
            return 0
        }
        switch tls.read(place, room, self) {
        case .bytes(let n):
            readable = true  // TLS may have more, even if the socket has not
            return n
        case .end:
            inputEnded = true
            return 0
        case .wait:
            readable = false
            return -Int(EAGAIN)
        case .failed(let failure):
            fail(input: failure)
            return -Int(EAGAIN)
        }
    }

    /// Makes one system call, or calls the backing.
    func receive(_ place: UnsafeMutableRawPointer, _ room: Int) -> Int {
        let system = network.system
        let n: Int
        switch transport {
        case .socket:
            n = system.receive(fdToClose, place, room)
            // After a short read the socket is empty, unless the end of the input follows.
            if n > 0, n < room, !hungUp, system.partsAreAll { (readable, socketIsReadable) = (false, false) }
        case .pipe: n = system.read(fdToClose, place, room, isNonblocking: true)
        case .polled: n = system.read(fdToClose, place, room, isNonblocking: false)
        case .backed: n = backing?.receive(place, room) ?? 0
        case .none: return -Int(EAGAIN)
        }
        if n == -Int(EINTR) { return receive(place, room) }
        if n == -Int(EAGAIN) { (readable, socketIsReadable) = (false, false) }
        if n == -Int(EIO), transport == .pipe || transport == .polled {
            // A terminal reports EIO when its other end is closed. A terminal that was removed reports EIO, too, and
            // cannot be queried.
            var isNonblocking: Int32 = 0
            if net_kind_of(fdToClose, &isNonblocking) != NET_PIPE.rawValue { return 0 }
        }
        return n
    }

    /// Notes a failure. Bytes that were read before can still be read.
    func fail(input failure: StreamFailure) {
        if inputFailure == nil { inputFailure = failure }
    }

    // MARK: Finding a unit

    /// Finds a unit in new bytes while the buffer is empty. The rest of the bytes goes into the buffer; all of them if
    /// they contain no whole unit.
    private func matchFresh(_ bytes: UnsafeRawBufferPointer, _ unit: Unit, _ limit: Int) -> Outcome? {
        var taken = 0
        var used = 0
        switch unit {
        case .any: (taken, used) = (min(bytes.count, limit), min(bytes.count, limit))
        case .exactly(let n) where bytes.count >= n: (taken, used) = (n, n)
        case .frame(let head):
            if let n = matchFrame(head, bytes, limit).0 { (taken, used) = (n, n) }
        case .exactlyAnd(let n, let ending) where bytes.count >= n && bytes.count - n >= ending.count:
            if Self.isFollowed(bytes, n, by: ending) { (taken, used) = (n, n + ending.count) }
        case .line:
            if let start = bytes.baseAddress, let found = memchr(start, 10, bytes.count) {
                let length = UnsafeRawPointer(found) - start
                let line = length > 0 && bytes[length - 1] == 13 ? length - 1 : length
                if line <= limit { (taken, used) = (line, length + 1) }
            }
        default: break
        }
        guard used > 0 else {
            keep(bytes)
            return match(unit, limit)
        }
        keep(UnsafeRawBufferPointer(rebasing: bytes[used...]))
        return .bytes(UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
    }

    /// Buffers bytes for the next read. If there is no memory, they are lost, and the input fails.
    private func keep(_ bytes: UnsafeRawBufferPointer) {
        if !input.append(bytes) { fail(input: StreamFailure(errno: ENOMEM, subject)) }
    }

    /// Finds a unit in the buffer. The unit's bytes stay in place until the next read.
    private func match(_ unit: Unit, _ limit: Int) -> Outcome? {
        let bytes = input.bytes
        switch unit {
        case .any: return take(min(bytes.count, limit))
        case .handshake, .readiness: return nil
        case .exactly(let n): return bytes.count >= n ? take(n) : nil
        case .exactlyAnd(let n, let ending):
            guard bytes.count >= n, bytes.count - n >= ending.count else { return nil }
            guard Self.isFollowed(bytes, n, by: ending) else {
                return .failed(Self.notFollowed(bytes, n, by: ending))
            }
            return take(n, and: ending.count)
        case .frame(let head):
            let (count, failure) = matchFrame(head, bytes, limit)
            return failure.map { .failed($0) } ?? count.map { take($0) }
        case .more(let n): return bytes.count > n ? .bytes(bytes) : nil
        case .peek(let n): return bytes.count >= n ? .bytes(UnsafeRawBufferPointer(rebasing: bytes[..<n])) : nil
        case .all:
            return bytes.count > limit ? .failed(tooMuch("more than \(limit) bytes before the end of input")) : nil
        case .line:
            guard let start = bytes.baseAddress else { return nil }
            let from = min(searched, bytes.count)
            guard let found = memchr(start + from, 10, bytes.count - from) else {
                searched = bytes.count
                // A carriage return at the end may be part of a line's end.
                let isEnd = bytes.last == 13
                return bytes.count - (isEnd ? 1 : 0) > limit ? .failed(tooMuch("line longer than \(limit) bytes")) : nil
            }
            let length = UnsafeRawPointer(found) - start
            let line = length > 0 && bytes[length - 1] == 13 ? length - 1 : length
            guard line <= limit else { return .failed(tooMuch("line longer than \(limit) bytes")) }
            return take(line, and: length + 1 - line)
        case .until(let end):
            guard let start = bytes.baseAddress else { return nil }
            let from = max(0, min(searched, bytes.count) - (end.count - 1))
            let found = end.text.withUnsafeBytes {
                net_find(start + from, bytes.count - from, $0.baseAddress, $0.count)
            }
            guard let found else {
                searched = bytes.count
                return Self.mayBegin(end.text, in: bytes, limit)
                    ? nil : .failed(tooMuch("the end is not within \(limit) bytes"))
            }
            let length = found - start
            guard length <= limit else { return .failed(tooMuch("the end is not within \(limit) bytes")) }
            return take(length, and: end.count)
        case .untilOneOf(let ends): return match(ends, bytes, limit)
        }
    }

    private func match(_ ends: Ends, _ bytes: UnsafeRawBufferPointer, _ limit: Int) -> Outcome? {
        guard let (length, which) = Self.find(ends, in: bytes, from: searched) else {
            searched = bytes.count
            return ends.texts.contains { Self.mayBegin($0, in: bytes, limit) }
                ? nil : .failed(tooMuch("the end is not within \(limit) bytes"))
        }
        guard length <= limit else { return .failed(tooMuch("the end is not within \(limit) bytes")) }
        network.which = which + 1
        return take(length, and: ends.texts[which].count)
    }

    /// Whether a delimiter that the bytes do not contain may still begin within the limit: after the bytes, or with
    /// their last ones.
    private static func mayBegin(_ end: [UInt8], in bytes: UnsafeRawBufferPointer, _ limit: Int) -> Bool {
        if bytes.count <= limit { return true }
        let first = max(0, bytes.count - (end.count - 1))
        return first <= limit && (first...limit).contains { end.starts(with: bytes[$0...]) }
    }

    /// Drops the next bytes, which a read has left in the buffer.
    public func drop(_ n: Int) { _ = take(min(max(0, n), input.count)) }

    private func take(_ n: Int, and more: Int = 0) -> Outcome {
        let bytes = UnsafeRawBufferPointer(rebasing: input.bytes[..<n])
        input.removeFirst(n + more)
        searched = 0
        return .bytes(bytes)
    }

    private func tooMuch(_ text: String) -> StreamFailure { StreamFailure(plain: "EMSGSIZE", text) }

    private func atEnd(_ unit: Unit, _ limit: Int) -> Outcome {
        let count = input.count
        switch unit {
        case .all: return count == 0 ? .bytes(UnsafeRawBufferPointer(start: nil, count: 0)) : take(count)
        case _ where count == 0: return .end
        case .any, .handshake, .readiness: return take(min(count, limit))
        case .line: return take(count)
        case .exactly, .exactlyAnd, .peek, .frame:
            let whole = whole(unit) ?? count
            return .failed(StreamFailure(plain: "EOF", "end of input after \(count) of \(whole) bytes"))
        case .until, .untilOneOf, .more:
            return .failed(StreamFailure(plain: "EOF", "end of input after \(count) bytes, before the end was found"))
        }
    }

    // MARK: Waiting

    /// Waits after `attempt` has returned nil. The owner's `readEnded` reports the result.
    ///
    /// - Parameter keepsAlive: Whether this wait keeps the loop running.
    public func wait(_ unit: Unit, limit: Int, waiter: Int, keepsAlive: Bool = true) {
        precondition(!isReading, "a stream has one reader at a time")
        input.freeIfEmpty()
        self.unit = unit
        self.limit = limit
        reader = waiter
        isReading = true
        readerStaysIdle = !keepsAlive
        if !keepsAlive { hasIdleWaits = true }
        updateActivity()
    }

    /// Cancels the waiting read. No byte is lost, but a TLS handshake cannot be continued: see `giveUpTLS`. Returns
    /// whether a read was waiting.
    @discardableResult
    public func cancelRead() -> Bool {
        guard isReading else { return false }
        isReading = false
        if unit == .handshake { giveUpTLS() }
        updateActivity()
        return true
    }

    func endRead(_ outcome: Outcome) {
        isReading = false
        updateActivity()
        teller._withUnsafeGuaranteedRef { $0.readEnded(self, outcome) }
    }

    // MARK: Delivering

    func deliversChanged(_ before: Bool) {
        guard delivers != before || delivers else { return }
        updateActivity()
        if delivers, state == .open, readable || !input.isEmpty || inputEnded { signal() }
    }

    /// Stops deliveries until `goOn`, while the receiver of the last delivery still works on it.
    public func hold() { isHeld = true }

    public func goOn() {
        guard isHeld else { return }
        isHeld = false
        if state == .open, delivers, !endWasDelivered, readable || !input.isEmpty || inputEnded { signal() }
    }

    /// Whether the stream has seen the end of the input; bytes before the end may be left to read.
    public var inputHasEnded: Bool { inputEnded }

    /// Lets the next read and the next write ask the kernel, whatever the last read and write have found: for owners
    /// that do not let the loop wait in between.
    public func look() {
        guard state == .open else { return }
        (readable, writable, socketIsReadable) = (true, true, true)
    }

    /// Delivers at once the bytes that have arrived: at most as much as a pipe can hold.
    public func deliverAll() {
        readable = readable || state == .open
        var rounds = 0
        while state == .open, delivers, !isHeld, !endWasDelivered, readable || !input.isEmpty || inputEnded, rounds < 64
        {
            rounds += 1
            deliverOnce()
        }
    }

    func deliverOnce() {
        guard !endWasDelivered, let outcome = attempt(.any, limit: Network.scratchSize) else { return }
        if case .bytes = outcome {
            // Further bytes are delivered after other items have had their turns, unless the owner has called `hold`.
            if readable || !input.isEmpty || inputEnded { signal() }
        } else {
            endWasDelivered = true
            updateActivity()
        }
        teller._withUnsafeGuaranteedRef { $0.arrived(self, outcome) }
    }
}
