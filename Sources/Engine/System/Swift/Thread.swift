internal import CLinux

/// A thread of the operating system, without any of the process's signals: those are the main thread's.
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

    /// Starts it. It runs until `body` returns, whether or not anybody keeps this object.
    ///
    /// - Parameters:
    ///   - name: as debuggers and `ps` show it; the kernel keeps 15 bytes.
    ///   - stackSize: in bytes, of which only those that are used cost memory; nil: as much as is usual.
    ///   - admitting: signals that it gets all the same.
    /// - Throws: EAGAIN if the process may not have more.
    @discardableResult
    package init(
        _ name: String, stackSize: Int? = nil, admitting signals: [Int32] = [], _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackSize { pthread_attr_setstacksize(&attributes, stackSize) }
        // It inherits the mask of who starts it, and so never runs a moment without.
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

    // Nobody can ask for its end any more.
    deinit { if state.withLock({ $0 == .running }) { pthread_detach(id) } }

    /// Waits for its end. Once.
    package func join() {
        let isFirst = state.withLock { state in
            defer { state = .joined }
            return state == .running
        }
        if isFirst { pthread_join(id, nil) }
    }

    /// Does nothing for so long.
    package static func pause(milliseconds: Int32) { poll(nil, 0, milliseconds) }

    /// Whether the caller is the process's first.
    package static var isMain: Bool { linux_is_main_thread() != 0 }
}
