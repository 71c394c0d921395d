internal import RunLoops

/// Limits warnings that a peer can cause with each connection. Prints the first warning of a kind; then once a minute
/// the number of further ones. Without this limit, a peer could fill the log.
package final class RepeatedWarnings: HostPart {
    private struct Minute {
        let subject: String
        var unprinted = 0
        let timer: RunLoop.Timer
    }

    private static let pause = Duration.seconds(60)
    private var minutes: [String: Minute] = [:]

    /// - Parameters:
    ///   - subject: the object of this host that the peer uses: `message port "calc"`.
    ///   - kind: warnings of different kinds are counted separately. A peer must not be able to choose it.
    package func warn(_ subject: String, _ text: String, kind: String = "") {
        let key = "\(subject)\n\(kind)"
        if minutes[key] != nil {
            minutes[key]?.unprinted += 1
        } else {
            host.onWarning(host, "\(subject): \(text)")
            beginMinute(key, subject)
        }
    }

    private func beginMinute(_ key: String, _ subject: String) {
        let fireDate = host.loop.now + Self.pause
        let timer = RunLoop.Timer(fireDate: fireDate, name: "repeated warnings") { [weak self] _, _ in
            self?.endMinute(key)
        }
        timer.keepsAlive = false
        minutes[key] = Minute(subject: subject, timer: timer)
        host.loop.add(timer, to: .common)
    }

    private func endMinute(_ key: String) {
        guard let minute = minutes.removeValue(forKey: key), minute.unprinted > 0 else { return }
        printCount(minute)
        beginMinute(key, minute.subject)
    }

    private func printCount(_ minute: Minute) {
        let warnings = minute.unprinted == 1 ? "1 more warning" : "\(minute.unprinted) more warnings"
        host.onWarning(host, "\(minute.subject): \(warnings) of this kind in the last minute")
    }

    private func end(prints: Bool) {
        let all = minutes.sorted { $0.key < $1.key }
        minutes = [:]
        for (_, minute) in all {
            minute.timer.invalidate()
            if prints, minute.unprinted > 0 { printCount(minute) }
        }
    }

    override package func settle() { end(prints: true) }
    override package func reset() { end(prints: false) }
    override package func willClose() { end(prints: true) }
    override package func willExit() { end(prints: true) }
}
