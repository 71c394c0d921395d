internal import CLuaSupport

/// Receives the text that Lua prints on a thread while output is redirected to it.
public final class Sink {
    fileprivate let record = UnsafeMutablePointer<cl_sink>.allocate(capacity: 1)
    private let write: (UnsafeRawBufferPointer) -> Bool

    /// - Parameter write: returns false if the text should go its usual way.
    public init(_ write: @escaping (UnsafeRawBufferPointer) -> Bool) {
        self.write = write
        record.initialize(
            to: cl_sink(context: Unmanaged.passUnretained(self).toOpaque()) { context, bytes, length in
                guard let context else { return 0 }
                let sink = Unmanaged<Sink>.fromOpaque(context).takeUnretainedValue()
                return sink.write(UnsafeRawBufferPointer(start: bytes, count: length)) ? 1 : 0
            })
    }

    deinit { record.deallocate() }

    /// A destination of printed text.
    public struct Place {
        fileprivate let record: UnsafeMutablePointer<cl_sink>?
    }

    public var place: Place { Place(record: record) }

    /// Sets a function that receives the output of other threads while the output of this thread is redirected. It is
    /// called on their threads; the text is printed as usual, too.
    public static func listenToThreads(_ listener: (@convention(c) (UnsafeRawPointer?, Int) -> Void)?) {
        cl_listen_to_threads(listener)
    }

    /// Redirects printed text to a place, and makes reads find the end of input. Returns the previous place.
    public static func redirect(to place: Place) -> Place { Place(record: cl_redirect(place.record)) }
}

/// The preparations for redirecting the output of one state.
public struct Redirection {
    fileprivate var slots: [UInt32] = [0, 0]
}

extension Interpreter {
    /// Prepares the redirection of Lua's output on this thread. Only one state at a time may do this.
    public final func openRedirection() -> Redirection {
        var redirection = Redirection()
        _ = cl_open_redirection(state, &redirection.slots)
        return redirection
    }

    public final func close(_ redirection: Redirection) { cl_close_redirection(state, redirection.slots) }

    /// Announces each read of standard input, by Lua's functions or C's, on any thread. `begin` is called on the
    /// reading thread before the read may have to wait, and returns 0 or an error number that refuses the read. `end`
    /// is called after the read: with 10 if the last byte was a line feed, 1 for another byte, 0 at the end of input,
    /// and -1 on failure. Call this function once; the announcement cannot be removed.
    ///
    /// - Returns: false if there is no memory.
    public final func announceReading(
        begin: @convention(c) () -> Int32, end: @convention(c) (Int32) -> Void
    ) -> Bool { cl_announce_reading(state, begin, end) != 0 }
}
