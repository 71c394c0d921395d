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
    private var busy = BusyTime()

    /// How long the loop has been busy without a pause, and how long ago the last warning about that was.
    private struct BusyTime {
        var length = 0.0
        var sinceTold = Double.infinity
        /// Whether a callback was slow in this second, which has its own warning.
        var hasSlow = false
    }
    /// The number of automatic dumps.
    private static let dumps = Lock(0)
    private static let mostDumps = 10

    private var recorder: RunLoop.Recorder.Memory { host.loop.recorderMemory }

    /// Begins to record this state's loop; also into the file if there is a current recording.
    func begin() {
        guard host.record() else { return host.onWarning(host, "the recorder cannot allocate memory") }
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
        guard settings.warningAfter != nil, !host.isThereToBeHeld else { return }
        host.loop.watchBusiness { [unowned(unsafe) self] share, length in wasAwake(share, length / .seconds(1)) }
    }

    /// Warns, at most every ten seconds, of a loop that is busy although none of its callbacks is slow.
    ///
    /// - Parameter share: the part of the last seconds in which the loop was awake.
    private func wasAwake(_ share: Double, _ seconds: Double) {
        let isBusy = share >= Self.muchBusy && !busy.hasSlow
        busy.hasSlow = false
        busy.length = isBusy ? busy.length + seconds : 0
        busy.sinceTold += seconds
        guard isBusy, busy.sinceTold >= Self.pauseOfWarnings, let text = busyText(share) else { return }
        busy.sinceTold = 0
        let place = host.threads.ownName.map { " of thread \"\($0.shownInLine)\"" } ?? ""
        host.onWarning(host, "warning: the loop\(place) was \(text)")
    }

    private static let rounding: Int64 = 100_000
    private static let muchBusy = 0.9
    private static let pauseOfWarnings = 10.0
    private static let mostPlaces = 3

    /// Returns a text such as `98 % busy for 1 s; most of it: timer made at app.lua:7 (90 %)`; nil if the loop was not
    /// busy in callbacks.
    private func busyText(_ share: Double) -> String? {
        let (records, lost) = RunLoop.Recorder.copy(recorder.recorder)
        let now = UInt64(max(0, RunLoop.Instant.now.nanoseconds))
        let start = max(now - min(now, 1_000_000_000), UInt64(max(0, recorder.recorder.pointee.recordsSince)))
        let activity = records.withUnsafeBytes { Recording.Activity($0, dropped: lost > 0, from: start, to: now) }
        guard activity.window > 0, activity.awake > 0 else { return nil }
        let places = activity.places.sorted { ($0.value.total, $1.key) > ($1.value.total, $0.key) }
        let total = min(activity.awake, places.reduce(0) { $0 + $1.value.total })
        let inCallbacks = share * Double(total) / Double(activity.awake)
        guard inCallbacks >= Self.muchBusy else { return nil }
        func percent(_ share: Double) -> Int { Int((share * 100).rounded()) }
        let most = places.prefix(Self.mostPlaces).compactMap { label, place -> String? in
            let own = percent(Double(place.total) / Double(activity.window))
            return own < 5 ? nil : "\(name(label)) (\(own) %)"
        }
        return "\(percent(inCallbacks)) % busy for \(max(1, Int(busy.length.rounded()))) s"
            + (most.isEmpty ? "" : "; most of it: \(most.joined(separator: ", "))")
    }

    /// - Parameter delay: the part of `took` in which the thread waited for a processor.
    private func wasSlow(_ label: UInt32, _ began: RunLoop.Instant, _ took: Duration, _ delay: Duration) {
        let (seconds, waited) = (took / .seconds(1), delay / .seconds(1))
        busy.hasSlow = true
        if let limit = Self.settings.warningAfter, seconds >= limit, !host.isThereToBeHeld {
            let late = host.loop.timersLate(since: began)
            let timers = late == 0 ? "" : "; \(late) \(late == 1 ? "timer was" : "timers were") late"
            let scheduling = waited == 0 ? "" : ", but was not scheduled for \(Self.text(waited)) of it"
            let blocked = host.whatBlocked(since: began.nanoseconds, for: took.wholeNanoseconds).map { ", in \($0)" }
            host.onWarning(
                host,
                "warning: \(accused(label, since: began)) held the loop for \(Self.text(seconds))"
                    + "\(blocked ?? "")\(scheduling)\(timers)")
        }
        if let limit = Self.settings.slow, seconds - waited >= limit {
            dump(to: Self.settings.errorDirectory, for: "slow")
        }
    }

    /// Returns what a label stands for, with its request and thread: `task made at app.lua:12 (GET /items/:id) in
    /// thread "worker"`.
    private func accused(_ label: UInt32, since began: RunLoop.Instant) -> String {
        // Times in records are rounded. The first record of a callback has the time at which the callback began.
        let start = UInt64(max(0, began.nanoseconds - Self.rounding))
        let request = RunLoop.Recorder.copy(recorder.recorder).records.last {
            $0.kind == RunLoop.Recorder.Record.Kind.belongs.rawValue && $0.time >= start
        }
        let thread = host.threads.ownName.map { " in thread \"\($0.shownInLine)\"" }
        return name(label) + (request.map { " (\(TraceNames.text($0.object)))" } ?? "") + (thread ?? "")
    }

    private func name(_ label: UInt32) -> String {
        host.isMainChunk(label) ? host.mainChunkText : TraceNames.text(label)
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
    /// - Parameter reason: Why the dump was made automatically; nil if it was requested. At most ten automatic
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
