package import Linux
package import Lua
internal import RunLoops

/// The limits of a state: memory, processor time, and the time for which a callback may hold the loop.
package final class LuaLimits: HostPart {
    /// For the main state: ends the program. Called if the program goes on after the error of its time limit.
    package var onProcessorTime: ((String) -> Void)?
    private var processorLimit = ""

    /// The smallest memory limit, in bytes. A new state takes a fifth of this size.
    package static let leastMemory = 512 << 10
    /// The smallest number of seconds.
    package static let leastTime = 0.01

    package static func limitText(ofProcessorTime seconds: Double) -> String {
        "limit: \(Time.short(Int64(seconds * 1e9))) s of processor time"
    }

    /// The main state shares its limit with the threads.
    package func limitMemory(to bytes: Int) { host.limitMemory(to: bytes, ofAll: host.thread == nil) }

    /// In the main state, the limit is for the processor time of the whole process.
    ///
    /// - Throws: the system's error if there is no timer.
    package func limitProcessorTime(to seconds: Double) throws(SystemError) {
        processorLimit = Self.limitText(ofProcessorTime: seconds)
        let failure = host.limitProcessor(to: seconds, ofAll: host.thread == nil)
        if failure != 0 { throw SystemError("timer_create", errno: failure) }
    }

    func reachedProcessorLimit(_ times: Int) {
        if let thread = host.thread {
            thread.reachesLimit(processorLimit)
        } else if times > 1 {
            onProcessorTime?(processorLimit)
        }
    }

    package override func grant(_ wishes: Wishes, isRunning: Bool) {
        if wishes.contains(.end) { onProcessorTime?(processorLimit) }
    }

    /// Limits the time for which a callback may hold the loop; nil removes the limit.
    ///
    /// - Throws: the system's error if no thread can be started.
    package func limitCallbacks(to seconds: Double?) throws(SystemError) {
        let handle = host.loop.handle
        guard let seconds else { return CallbackWatch.end(handle) }
        let (thread, turn) = host.limitCallbacks(to: seconds)
        try CallbackWatch.begin(.init(handle: handle, thread: thread, turn: turn, seconds: seconds))
    }

    package override func willClose() { CallbackWatch.end(host.loop.handle) }
}

/// Checks at intervals, on a separate thread, which callbacks hold their loops for too long.
private enum CallbackWatch {
    struct Watched: Sendable {
        let handle: RunLoop.Handle
        let thread: UInt
        let turn: @Sendable () -> UInt64
        let seconds: Double
        /// The number of the latest callback, and the time at which it was first seen.
        var latest: UInt64 = 0
        var since = RunLoop.Instant.now
    }

    private struct State: Sendable {
        var watched: [ObjectIdentifier: Watched] = [:]
        var isRunning = false
    }

    private static let state = Lock(State())

    static func begin(_ new: Watched) throws(SystemError) {
        let starts = state.withLock { state in
            state.watched[ObjectIdentifier(new.handle)] = new
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard starts else { return }
        do throws(SystemError) {
            try Linux.Thread("limits", stackSize: 64 << 10) { run() }
        } catch {
            state.withLock { $0 = State() }
            throw error
        }
    }

    static func end(_ handle: RunLoop.Handle) {
        _ = state.withLock { $0.watched.removeValue(forKey: ObjectIdentifier(handle)) }
    }

    private static func run() {
        while let pause = look() { Linux.Thread.pause(milliseconds: pause) }
    }

    /// Checks all callbacks. Returns the milliseconds until the next check; nil if there is nothing to watch. Holds the
    /// lock, so that no state is closed during the check.
    private static func look() -> Int32? {
        state.withLock { state in
            let now = RunLoop.Instant.now
            var least = Double.infinity
            for (key, var one) in state.watched {
                let turn = one.turn()
                if turn != one.latest || one.handle.isWaiting {
                    (one.latest, one.since) = (turn, now)
                } else if one.since + .seconds(one.seconds) <= now {
                    Interpreter.reportHeld(one.thread)
                    one.since = now
                }
                state.watched[key] = one
                least = min(least, one.seconds)
            }
            guard least < .infinity else {
                state.isRunning = false
                return nil
            }
            return Int32(min(max(least * 125, 1), 250))
        }
    }
}
