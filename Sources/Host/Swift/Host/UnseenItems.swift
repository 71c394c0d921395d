internal import Linux
internal import Lua
internal import RunLoops

/// Warnings about timers and other items that are left in modes which never ran: a misspelt mode is silent otherwise.
extension LuaHost {
    private static let mostUnseen = 10
    private static let knownModes = ["default", "common", "event_tracking", "modal", "connection_reply"]

    /// Warns of such items at the end of a script or a thread's function, if warnings are on.
    package func warnOfUnseen() {
        guard warns, !isClosed else { return }
        let unseen = unseenItems()
        for (entry, modes) in unseen.prefix(Self.mostUnseen) {
            let item = Failure.Subject(kind: entry.kind, name: entry.name, site: entry.site).text
            onWarning(self, "warning: \(item) was in \(text(of: modes))")
        }
        let others = unseen.count - Self.mostUnseen
        if others > 0 {
            onWarning(self, "warning: \(others) more \(others == 1 ? "was" : "were") only in modes that never ran")
        }
    }

    /// Returns the script's items all of whose modes never ran, each with its modes.
    private func unseenItems() -> [(entry: InspectBinding.Entry, modes: [RunLoop.Mode])] {
        var found: [(entry: InspectBinding.Entry, modes: [RunLoop.Mode])] = []
        var places: [UnsafeRawPointer: Int] = [:]
        var seen: Set<UnsafeRawPointer> = []
        let common = loop.commonModeNames
        for mode in loop.modeNames {
            for entry in InspectBinding.entries(self, mode) {
                if loop.hasRun(in: mode) || common.contains(mode) {
                    seen.insert(entry.identity)
                } else if let place = places[entry.identity] {
                    found[place].modes.append(mode)
                } else if !entry.isHosts, entry.site != nil, entry.kind != "task" {
                    places[entry.identity] = found.count
                    found.append((entry, [mode]))
                }
            }
        }
        return found.filter { !seen.contains($0.entry.identity) }
    }

    /// Returns a text such as `mode "moddal" only, which never ran (did you mean "modal"?)`.
    private func text(of modes: [RunLoop.Mode]) -> String {
        let names = modes.map { "\"\($0.rawValue.shownInLine)\"" }.joined(separator: " and ")
        let known = Self.knownModes + loop.modeNames.filter { loop.hasRun(in: $0) }.map(\.rawValue)
        let meant = modes.lazy.compactMap { mode in
            known.contains(mode.rawValue) ? nil : nearest(to: mode.rawValue, known)
        }.first
        return "\(modes.count == 1 ? "mode" : "modes") \(names) only, which never ran"
            + (meant.map { " (did you mean \"\($0)\"?)" } ?? "")
    }
}
