internal import CLuaSupport

/// Takes what Lua prints on a thread, while it is the one to do so.
public final class Sink {
    fileprivate let record = UnsafeMutablePointer<cl_sink>.allocate(capacity: 1)
    private let write: (UnsafeRawBufferPointer) -> Bool

    /// - Parameter write: returns false for what is to be printed as ever.
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

    /// Where what is printed goes.
    public struct Place {
        fileprivate let record: UnsafeMutablePointer<cl_sink>?
    }

    public var place: Place { Place(record: record) }

    /// What other threads print while this one's output is redirected is printed as ever, and told to `listener`, on their threads.
    public static func listenToThreads(_ listener: (@convention(c) (UnsafeRawPointer?, Int) -> Void)?) {
        cl_listen_to_threads(listener)
    }

    /// What is printed goes there, and reading finds the end of input. Returns where it went before.
    public static func redirect(to place: Place) -> Place { Place(record: cl_redirect(place.record)) }
}

/// What is prepared for redirecting what one state prints.
public struct Redirection {
    fileprivate var slots: [UInt32] = [0, 0]
}

extension Interpreter {
    /// Prepares redirecting what Lua prints on this thread. One state at a time.
    public final func openRedirection() -> Redirection {
        var redirection = Redirection()
        _ = cl_open_redirection(state, &redirection.slots)
        return redirection
    }

    public final func close(_ redirection: Redirection) { cl_close_redirection(state, redirection.slots) }

    /// From now on whoever reads standard input, by Lua's functions or C's, calls `begin` before it may have to wait, on its thread: 0, or
    /// an error number that refuses; and `end` afterwards: 10, it has read the end of a line; 1, something else; 0, the end of
    /// input; -1, it has failed. Once, for good.
    ///
    /// - Returns: false when memory is out.
    public final func announceReading(
        begin: @convention(c) () -> Int32, end: @convention(c) (Int32) -> Void
    ) -> Bool { cl_announce_reading(state, begin, end) != 0 }
}
