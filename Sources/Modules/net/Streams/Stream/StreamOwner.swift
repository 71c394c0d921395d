public import RunLoops

/// Is told what becomes of streams and listeners: one object for any number of them. Called on the thread of their loop, each
/// time as the last thing the stream does in its turn: it may do anything.
///
/// This one calls the closures that a stream was given.
open class StreamOwner: RunLoop.ItemOwner {
    /// A read that waited is over. The bytes are valid until the stream, or another of its loop, reads again.
    open func readEnded(_ stream: Stream, _ outcome: Stream.Outcome) {
        let then = stream.handlers?.read
        stream.handlers?.read = nil
        stream.handlers?.stopTimer()
        then?(outcome)
    }

    /// Input of a stream that `delivers`: bytes, then once the end or a failure.
    open func arrived(_ stream: Stream, _ outcome: Stream.Outcome) { stream.handlers?.arrived?(stream, outcome) }

    /// A wait for the output is over.
    open func writeEnded(_ stream: Stream, _ waiter: Int, _ failure: StreamFailure?) {
        stream.handlers?.writes.removeValue(forKey: waiter)?(failure)
    }

    /// It is connected, or will not be.
    open func opened(_ stream: Stream, _ failure: StreamFailure?) {
        let then = stream.handlers?.opened
        stream.handlers?.opened = nil
        then?(failure)
    }

    /// It has become idle, or is no longer: see `Stream.isActive`.
    open func changed(_ stream: Stream) {}

    /// A connection, which is in the listener's modes.
    open func accepted(_ stream: Stream, by listener: Listener) { listener.onConnection?(stream) }

    /// It cannot accept for the moment, or, with nil, can again. Once for each time of need.
    open func troubled(_ listener: Listener, _ failure: StreamFailure?) { listener.onTrouble?(failure) }

    /// There may be a message, for whoever waits in `receive`.
    open func canReceive(_ socket: Datagram) {}

    /// A connection is closed.
    open func connectionEnded(_ listener: Listener) {}
}
