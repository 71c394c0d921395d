/// What stands between a stream's bytes and those of its socket: TLS.
class Filter {
    enum Read {
        case bytes(Int)
        case end
        /// There is nothing; the stream is to be asked when its socket has more.
        case wait
        case failed(StreamFailure)
    }

    func read(_ place: UnsafeMutableRawPointer, _ room: Int, _ stream: Stream) -> Read { .end }
    /// Sends what is in the stream's output, as far as that is possible.
    func send(_ stream: Stream) -> StreamFailure? { nil }
    /// Says that no more comes. Returns whether that is on its way already.
    func finish(_ stream: Stream) -> Bool { true }
    /// How many bytes it has that are left to send.
    var unsent: Int { 0 }
    /// It waits for the socket, for reasons of its own.
    func hasWork(_ stream: Stream) -> Bool { false }
    func dropOutput() {}
}
