import Testing

@testable import RunLoops

/// A loop in simulated time, with a journal of its events.
final class World {
    let poller = SimulatedPoller()
    let loop: RunLoop
    private(set) var entries: [String] = []

    init(_ sequence: RunLoop.Sequence = .documented) {
        loop = RunLoop(poller: poller)
        loop.sequence = sequence
    }

    /// Milliseconds since the start of the world.
    var time: Int64 { poller.now() / 1_000_000 }

    func log(_ entry: String) { entries.append(entry) }

    /// Returns the entries since the last call, separated by spaces.
    func journal() -> String {
        defer { entries = [] }
        return entries.joined(separator: " ")
    }

    /// Simulates that the thread is busy for this long.
    func work(_ milliseconds: Int) { poller.advance(by: .milliseconds(milliseconds)) }

    func date(_ milliseconds: Int) -> RunLoop.Instant { .init(nanoseconds: Int64(milliseconds) * 1_000_000) }

    static let letters: [RunLoop.Activity: String] = [
        .entry: "E", .beforeTimers: "BT", .beforeSources: "BS", .beforeWaiting: "BW", .afterWaiting: "AW", .exit: "X",
    ]

    /// Writes all activities to the journal, as E BT BS BW AW X, and passes each to `then`.
    @discardableResult
    func observe(
        _ mode: RunLoop.Mode = .default, _ activities: RunLoop.Activity = .all, prefix: String = "",
        then: @escaping (RunLoop.Activity) -> Void = { _ in }
    ) -> RunLoop.Observer {
        let observer = RunLoop.Observer(activities) { [unowned self] _, activity in
            log(prefix + (Self.letters[activity] ?? "?"))
            then(activity)
        }
        loop.add(observer, to: mode)
        return observer
    }

    /// A custom source that writes its name to the journal.
    @discardableResult
    func source(
        _ name: String, order: Int = 0, in modes: [RunLoop.Mode] = [.default], signalled: Bool = false,
        then: @escaping (RunLoop.Source) -> Void = { _ in }
    ) -> RunLoop.Source {
        let source = RunLoop.Source(
            order: order, name: name,
            perform: { [unowned self] source in
                log(name)
                then(source)
            })
        if signalled { source.signal() }
        for mode in modes { loop.add(source, to: mode) }
        return source
    }

    /// An item that only keeps the mode alive.
    @discardableResult
    func keepAlive(_ mode: RunLoop.Mode = .default) -> RunLoop.Source {
        let source = RunLoop.Source(name: "keep")
        loop.add(source, to: mode)
        return source
    }

    /// A timer that writes its name to the journal.
    @discardableResult
    func timer(
        _ name: String, at milliseconds: Int, every interval: Int = 0, order: Int = 0,
        in modes: [RunLoop.Mode] = [.default], then: @escaping (RunLoop.Timer) -> Void = { _ in }
    ) -> RunLoop.Timer {
        let timer = RunLoop.Timer(
            fireDate: date(milliseconds), interval: .milliseconds(interval), order: order, name: name
        ) { [unowned self] timer, _ in
            log(name)
            then(timer)
        }
        for mode in modes { loop.add(timer, to: mode) }
        return timer
    }

    /// A port that writes its name to the journal and reads all data.
    @discardableResult
    func port(
        _ name: String, _ pipe: Pipe, order: Int = 0, in modes: [RunLoop.Mode] = [.default],
        then: @escaping (RunLoop.FDPort) -> Void = { _ in }
    ) throws -> RunLoop.FDPort {
        let port = try RunLoop.FDPort(pipe.reader, .read, order: order, name: name) { [unowned self] port, _ in
            log(name)
            pipe.drain()
            then(port)
        }
        for mode in modes { loop.add(port, to: mode) }
        return port
    }

    func perform(
        _ name: String, in modes: [RunLoop.Mode] = [.common], order: Int = 0, then: @escaping () -> Void = {}
    ) {
        loop.perform(in: modes, order: order) { [unowned self] in
            log(name)
            then()
        }
    }

    /// Runs the loop, and writes "=" and the number of the result to the journal.
    @discardableResult
    func run(_ mode: RunLoop.Mode = .default, ms: Int? = 10, returning: Bool = false) -> RunLoop.RunResult {
        let result = loop.run(in: mode, for: ms.map { .milliseconds($0) }, returnAfterSource: returning)
        log("=\(result.rawValue)")
        return result
    }
}
