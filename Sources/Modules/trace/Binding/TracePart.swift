internal import Glibc
internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops
internal import Tracing

/// The recording of one Lua state.
final class TracePart: HostPart {
    // Set before there is a second thread.
    nonisolated(unsafe) static var settings = TraceSettings()
    private var isWatching = false
    /// The number of automatic dumps.
    private static let dumps = Lock(0)
    private static let mostDumps = 10

    private var recorder: RunLoop.Recorder.Memory { host.loop.recorderMemory }

    /// Begins to record this state's loop; also into the file if there is a current recording.
    func begin() {
        guard host.record() else { return host.onWarning(host, "the recorder gets no memory") }
        TraceFile.current?.join(recorder, as: host.loopName)
        watch()
    }

    override func willClose() { TraceFile.current?.leave(recorder) }

    override func willExit() { willClose() }

    override func grant(_ wishes: Wishes, isRunning: Bool) {
        if wishes.contains(.dump) { dump(to: nil, for: nil) }
    }

    // MARK: Slow callbacks

    private func watch() {
        let settings = Self.settings
        guard !isWatching, let limit = [settings.slow, settings.warningAfter].compactMap(\.self).min() else { return }
        isWatching = true
        host.loop.watchSlowCallbacks(.seconds(limit)) { [unowned(unsafe) self] label, began, took, delay in
            wasSlow(label, began, took, delay)
        }
    }

    /// - Parameter delay: for how much of it the thread waited for a processor.
    private func wasSlow(_ label: UInt32, _ began: RunLoop.Instant, _ took: Duration, _ delay: Duration) {
        let (seconds, waited) = (took / .seconds(1), delay / .seconds(1))
        if let limit = Self.settings.warningAfter, seconds >= limit {
            let late = host.loop.timersLate(since: began)
            let timers = late == 0 ? "" : "; \(late) \(late == 1 ? "timer was" : "timers were") late"
            let scheduling = waited == 0 ? "" : ", but was not scheduled for \(Self.text(waited)) of it"
            host.onWarning(
                host,
                "warning: \(TraceNames.text(label)) held the loop for \(Self.text(seconds))\(scheduling)\(timers)")
        }
        if let limit = Self.settings.slow, seconds - waited >= limit {
            dump(to: Self.settings.errorDirectory, for: "slow")
        }
    }

    private static func text(_ seconds: Double) -> String {
        if seconds < 1 { return "\(Int((seconds * 1000).rounded())) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }

    // MARK: Dumps

    /// Writes the last moments to a new file of a directory, nil for the current one, and reports the path on standard
    /// error.
    ///
    /// - Parameter reason: Why the dump was made automatically; nil if somebody has asked for it. At most ten automatic
    ///   dumps are made.
    func dump(to directory: String?, for reason: String?) {
        if reason == "slow" {
            let isOneTooMany = Self.dumps.withLock { count in
                count += 1
                return count > Self.mostDumps
            }
            if isOneTooMany { return }
        }
        let name = TraceNames.title.hasSuffix(".lua") ? String(TraceNames.title.dropLast(4)) : TraceNames.title
        let stem =
            "\(directory ?? ".")/\(name)-\(TraceNames.process)" + (reason.map { "-\($0)" } ?? "")
        do throws(SystemError) {
            if let directory { _ = directory.withAnyCString { mkdir($0, 0o700) } }
            var path = ""
            try TraceNames.dump { about throws(SystemError) in
                let file = try OutputFile(stem: stem, ending: ".html")
                path = file.path
                return try Recording.Writer(file.descriptor, path: path, format: .page, about: about)
            }
            let whole = System.realPath(of: path) ?? path
            let remark = RunLoop.hasRecords ? "" : ": \(LuaHost.remarkOnNothing)"
            host.onWarning(host, "the last moments are in \(whole)\(remark)")
        } catch {
            host.onWarning(host, "the last moments cannot be written: \(error)")
        }
    }
}

extension LuaHost {
    /// The name of the loop in recordings.
    var loopName: String { threads.ownName ?? "main" }
}
