import Glibc

@testable import RunLoops

/// A thread that runs a closure.
final class Thread {
    private var id = pthread_t()

    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    init(_ run: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(Body(run)).toOpaque()
        let status = pthread_create(
            &id, nil,
            { pointer in
                if let pointer { Unmanaged<Body>.fromOpaque(pointer).takeRetainedValue().run() }
                return nil
            }, body)
        precondition(status == 0, "no thread: \(status)")
    }

    func join() { pthread_join(id, nil) }
}

extension RunLoop.Handle {
    /// Waits on another thread until the loop sleeps.
    func awaitWaiting() { while !isWaiting { sched_yield() } }

    func stopWhenWaiting() {
        awaitWaiting()
        stop()
    }
}
