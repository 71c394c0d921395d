public import RunLoops

/// Receives the events of any number of streams and listeners. They call this object on their loop's thread, each time
/// as the last step of a turn, so that it may do anything.
///
/// This class calls the closures of a stream.
open class StreamOwner: RunLoop.ItemOwner {
    /// A waiting read has ended. The bytes are valid until any stream of the loop reads again.
    open func readEnded(_ stream: Stream, _ outcome: Stream.Outcome) {
        let then = stream.handlers?.read
        stream.handlers?.read = nil
        stream.handlers?.stopTimer()
        then?(outcome)
    }

    /// Input of a stream that `delivers`: bytes, and once the end or a failure.
    open func arrived(_ stream: Stream, _ outcome: Stream.Outcome) { stream.handlers?.arrived?(stream, outcome) }

    /// A wait for the output has ended.
    open func writeEnded(_ stream: Stream, _ waiter: Int, _ failure: StreamFailure?) {
        stream.handlers?.writes.removeValue(forKey: waiter)?(failure)
    }

    /// The stream is connected, or has failed to connect.
    open func opened(_ stream: Stream, _ failure: StreamFailure?) {
        let then = stream.handlers?.opened
        stream.handlers?.opened = nil
        then?(failure)
    }

    /// `Stream.isActive` has changed.
    open func changed(_ stream: Stream) {}

    /// A new connection, which is in the listener's modes.
    open func accepted(_ stream: Stream, by listener: Listener) { listener.onConnection?(stream) }

    /// Called with a failure when the listener cannot accept for now, and with nil when it can again. Called once for
    /// each shortage of descriptors or memory.
    open func troubled(_ listener: Listener, _ failure: StreamFailure?) { listener.onTrouble?(failure) }

    /// A message may have arrived, for a waiter in `receive`.
    open func canReceive(_ socket: Datagram) {}

    /// A connection has closed.
    open func connectionEnded(_ listener: Listener) {}
}
