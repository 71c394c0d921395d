internal import CLinux

/// A thread that blocks all signals, since the main thread handles the signals of the process.
package final class Thread: Sendable {
    private let id: pthread_t
    private let state = Lock(State.running)
    private enum State { case running, joined }

    private final class Start {
        let name: String
        let body: () -> Void
        init(_ name: String, _ body: @escaping () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Starts a thread, which runs until `body` returns, even if this object is deallocated before.
    ///
    /// - Parameters:
    ///   - name: The name for debuggers and `ps`; the kernel keeps 15 bytes.
    ///   - stackSize: Bytes, of which only the used ones cost memory; nil for the default.
    ///   - signals: Signals that the thread does not block.
    ///   - body: Runs on the thread.
    /// - Throws: EAGAIN if the process may not have more threads.
    @discardableResult
    package init(
        _ name: String, stackSize: Int? = nil, admitting signals: [Int32] = [], _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize { pthread_attr_setstacksize(&attributes, stackSize) }
        // A thread inherits the signal mask of its creator, so that it never runs without the mask.
        var blocked = sigset_t()
        var before = sigset_t()
        sigfillset(&blocked)
        for signal in signals { sigdelset(&blocked, signal) }
        pthread_sigmask(SIG_SETMASK, &blocked, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        let start = Unmanaged.passRetained(Start(name, body))
        var id = pthread_t()
        let failure = pthread_create(
            &id, &attributes,
            { start in
                guard let start else { return nil }
                let this = Unmanaged<Start>.fromOpaque(start).takeRetainedValue()
                linux_name_thread(this.name)
                linux_count_thread(1)
                this.body()
                linux_count_thread(-1)
                return nil
            }, start.toOpaque())
        guard failure == 0 else {
            start.release()
            throw SystemError("pthread_create", errno: failure)
        }
        self.id = id
    }

    // No one can join the thread any more.
    deinit { if state.withLock({ $0 == .running }) { pthread_detach(id) } }

    /// Waits for the end of the thread. Only the first call waits.
    package func join() {
        let isFirst = state.withLock { state in
            defer { state = .joined }
            return state == .running
        }
        if isFirst { pthread_join(id, nil) }
    }

    /// Makes the calling thread sleep.
    package static func pause(milliseconds: Int32) { poll(nil, 0, milliseconds) }

    /// Whether the calling thread is the main thread.
    package static var isMain: Bool { linux_is_main_thread() != 0 }
}
