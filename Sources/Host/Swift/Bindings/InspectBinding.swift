internal import Linux
internal import Lua
package import RunLoops

/// `loop:inspect`, `loop:stats` and `rl.why`.
public enum InspectBinding {
    /// One item or timer in a mode.
    public struct Entry {
        /// Identifies the item: equal in the entries of all modes that have the item.
        package var identity: UnsafeRawPointer
        public var kind: String
        public var name: String
        public var order: Int
        /// The creation site.
        public var site: String?
        /// In nanoseconds of the loop's clock.
        public var next: Int64?
        public var interval: Int64?
        public var detail: String?
        /// Whether the item keeps the loop running.
        public var keepsAlive = true
        /// Whether the item is a timer whose callback is in progress.
        public var isFiring = false
        /// Whether the item only serves something else that is listed separately, such as a stream or a task's wait.
        public var isHosts = false
    }

    package static func entries(_ host: LuaHost, _ mode: RunLoop.Mode) -> [Entry] {
        var entries: [Entry] = []
        for node in host.loop.timers(in: mode) {
            let box = TimerBinding.box(node)
            // Sleeping tasks, delayed requests and streams have timers of their own, which have no userdata.
            guard host.isWallTimer(node) || node.pointee.owner(is: host.timers) else {
                let isTask = node.pointee.owner(is: host.sleepers)
                let fiber = isTask ? host.fiber(of: node) : nil
                let request = host.delayedRequest(node)
                entries.append(
                    Entry(
                        identity: UnsafeRawPointer(node), kind: isTask ? "task" : request.isOne ? "request" : "timer",
                        name: RunLoop.Timer.of(node)?.name ?? fiber.flatMap(LuaTask.running)?.name ?? "",
                        order: node.pointee.order,
                        site: fiber.flatMap { host.site($0.subjectSite) } ?? request.site, next: node.pointee.fireDate,
                        detail: fiber.map { host.placeAndOriginOfWait($0) }
                            ?? (request.isOne ? "delayed" : "the host's own"),
                        keepsAlive: node.pointee.keepsAlive, isHosts: !isTask && !request.isOne))
                for part in host.parts { part.show(node, in: &entries[entries.count - 1]) }
                continue
            }
            entries.append(
                Entry(
                    identity: UnsafeRawPointer(node), kind: "timer",
                    name: host.nameOfAnchored(UInt32(node.pointee.context)) ?? "",
                    order: node.pointee.order, site: host.site(box.site),
                    next: node.pointee.fireDate,
                    interval: node.pointee.repeats ? node.pointee.interval : nil,
                    detail: host.momentText(node),
                    keepsAlive: node.pointee.keepsAlive, isFiring: node.pointee.isFiring))
            describe(UInt32(node.pointee.context), in: &entries[entries.count - 1], host)
        }
        entries.sort { ($0.next ?? 0) < ($1.next ?? 0) }
        for item in host.loop.items(in: mode) {
            let identity = UnsafeRawPointer(Unmanaged.passUnretained(item).toOpaque())
            var entry = Entry(
                identity: identity, kind: "", name: item.name, order: item.order, keepsAlive: item.keepsAlive)
            switch item {
            case let port as RunLoop.FDPort:
                entry.kind = ownerKind(port, host) ?? "fd_port"
                entry.detail = "fd \(port.fd), \"\(Events.text(port.events))\""
            case let source as RunLoop.Source:
                entry.kind = "source"
                if source.isSignalled { entry.detail = "signalled" }
            case is RunLoop.Observer: entry.kind = "observer"
            case is RunLoop.MessagePort: entry.kind = "message_port"
            // An item that a module defines.
            default: entry.kind = (item.owner === host.items ? item.box?.kindName : nil) ?? "port"
            }
            if item.owner === host.items, let box = item.box { entry.site = host.site(box.site) }
            if let waiter = item.owner as? Waiter {
                entry.kind = "task"
                entry.name = LuaTask.running(waiter.fiber)?.name ?? ""
                entry.detail = host.placeOfWait(waiter.fiber) + (entry.detail.map { ", \($0)" } ?? "")
                entry.site = host.site(waiter.fiber.subjectSite)
            }
            for part in host.parts { part.show(item, in: &entry) }
            // Several objects of a module may share a source: each of them has an entry.
            if item is RunLoop.Source, item.owner === host.items, let box = item.box {
                var number = 1
                while describe(box.slot, number, in: &entry, host) {
                    entries.append(entry)
                    number += 1
                }
                if number > 1 { continue }
            }
            entries.append(entry)
        }
        return entries
    }

    /// Asks the modules written in Lua which object an item serves, and adds the object's kind, name and further data
    /// to the entry. If several objects share the item, `number` selects one of them, and the entry also gets the
    /// object itself and its creation site.
    ///
    /// - Returns: whether there is such an object.
    @discardableResult
    private static func describe(
        _ slot: UInt32, _ number: Int = 1, in entry: inout Entry, _ host: LuaHost
    ) -> Bool {
        let stack = host.stack
        guard slot != 0, stack.reserve(10) else { return false }
        let top = stack.top
        defer { stack.top = top }
        guard stack.pushInternals(), stack.replaceTop(withField: "show_item"), stack.type(-1) == .function
        else { return false }
        host.push(stack, slot: slot)
        stack.push(number)
        guard stack.call(arguments: 2, results: 5), let kind = stack.string(-5) else { return false }
        entry.kind = kind
        entry.name = stack.string(-4) ?? entry.name
        entry.detail = stack.string(-3) ?? entry.detail
        if stack.type(-2) == .table, let object = UnsafeRawPointer(bitPattern: stack.identity(-2)) {
            entry.identity = object
        }
        entry.site = stack.string(-1) ?? entry.site
        entry.next = nil
        entry.interval = nil
        return true
    }

    /// Returns the kind of the module's object that a port serves, or nil if it serves none.
    private static func ownerKind(_ port: RunLoop.FDPort, _ host: LuaHost) -> String? {
        let stack = host.stack
        guard port.owner === host.items, let box = port.box, box.slot != 0, stack.reserve(8) else { return nil }
        let top = stack.top
        defer { stack.top = top }
        host.push(stack, slot: box.slot)
        guard stack.pushUserValue(FDPortBinding.Value.object.number, of: -1) == .table, stack.pushMetatable(of: -1)
        else { return nil }
        stack.pushCopy(of: -1)
        guard stack.replaceTop(withField: "__stays"), stack.boolean(-1) else { return nil }
        stack.pop()
        return stack.replaceTop(withField: "__name") ? stack.string(-1) : nil
    }

    /// loop:inspect()
    static func inspect(_ host: LuaHost) -> ValueProgram {
        var program = ValueProgram()
        program.table { result in
            result.field("running") { $0.append(host.loop.currentMode?.rawValue) }
            result.field("requests") { $0.append(host.loop.pendingRequests) }
            result.field("common_modes") { $0.append(list: host.loop.commonModeNames.map(\.rawValue)) }
            result.field("modes") { modes in
                modes.table { modes in
                    for mode in host.loop.modeNames {
                        modes.field(mode.rawValue) { items in
                            items.table { for entry in entries(host, mode) { append(entry, to: &$0) } }
                        }
                    }
                }
            }
        }
        return program
    }

    private static func append(_ entry: Entry, to program: inout ValueProgram) {
        program.element { program in
            program.table { program in
                program.field("kind") { $0.append(entry.kind) }
                program.field("name") { $0.append(entry.name) }
                program.field("order") { $0.append(entry.order) }
                if let site = entry.site { program.field("made_at") { $0.append(site) } }
                if let next = entry.next { program.field("next") { $0.append(Time.seconds(next)) } }
                if let interval = entry.interval { program.field("interval") { $0.append(Time.seconds(interval)) } }
                if let detail = entry.detail { program.field("detail") { $0.append(detail) } }
                if !entry.keepsAlive { program.field("keeps_alive") { $0.append(false) } }
            }
        }
    }

    /// loop:stats()
    static func stats(_ host: LuaHost) -> ValueProgram {
        let statistics = host.loop.statistics
        var program = ValueProgram()
        program.table { program in
            program.field("passes") { $0.append(statistics.passes) }
            program.field("sleeps") { $0.append(statistics.sleeps) }
            program.field("seconds_asleep") { $0.append(Time.seconds(statistics.asleep)) }
            program.field("longest_callback") { $0.append(Time.seconds(statistics.longest)) }
            program.field("callbacks") { callbacks in
                callbacks.table { callbacks in
                    callbacks.field("timer") { $0.append(statistics.timers) }
                    callbacks.field("source") { $0.append(statistics.sources) }
                    callbacks.field("port") { $0.append(statistics.ports) }
                    callbacks.field("observer") { $0.append(statistics.observers) }
                    callbacks.field("request") { $0.append(statistics.requests) }
                }
            }
        }
        return program
    }

    /// Returns a line such as `timer "poll" (every 1 s, next in 0.3 s, made at app.lua:12)`.
    static func line(_ entry: Entry, _ now: Int64) -> String {
        var parts: [String] = []
        if let interval = entry.interval { parts.append("every \(Time.short(interval)) s") }
        if let next = entry.next {
            let left = next - now
            parts.append(left > 0 ? "next in \(Time.short(left)) s" : "due")
        }
        if let detail = entry.detail { parts.append(detail) }
        let text = String(entry.kind, name: entry.name, parts, site: entry.site)
        return entry.isFiring ? "\(text) (its callback runs now)" : text
    }

    /// rl.why(): Returns what keeps this thread's loop alive, as text.
    static func why(_ host: LuaHost) -> String {
        var lines = lines(host) { $0.keepsAlive }
        let others = Self.lines(host) { !$0.keepsAlive }
        lines += requestLines(host)
        let state = host.loop.currentMode.map { "running in \"\($0.rawValue.shownInLine)\"" } ?? "not running"
        var text =
            lines.isEmpty
            ? "nothing keeps the loop alive"
            : "the loop is \(state); what keeps it alive:\n" + lines.joined(separator: "\n")
        if !others.isEmpty {
            text += "\nserved, but it does not keep the loop running:\n" + others.joined(separator: "\n")
        }
        let waits = host.waitsForTasks()
        if !waits.isEmpty { text += "\nwaiting for other tasks:\n  " + waits.joined(separator: "\n  ") }
        return text
    }

    /// Returns lines such as `2 perform requests (in common, made at app.lua:12)`.
    private static func requestLines(_ host: LuaHost) -> [String] {
        var lines: [(text: String, count: Int)] = []
        var places: [String: Int] = [:]
        func note(_ text: String, _ count: Int) {
            if let place = places[text] { return lines[place].count += count }
            places[text] = lines.count
            lines.append((text, count))
        }
        let own = host.loop.pendingRequests(of: host.requests)
        for (modes, context) in own {
            host.push(host.stack, slot: UInt32(context))
            let site = host.stack.box(-1).flatMap { host.site($0.site) }
            host.stack.pop()
            let names = modes.map(\.rawValue.shownInLine).joined(separator: ", ")
            note(" (in \(names)\(site.map { ", made at \($0)" } ?? ""))", 1)
        }
        if host.loop.pendingRequests > own.count { note(" of the host's own", host.loop.pendingRequests - own.count) }
        return lines.map { $0.count == 1 ? "perform request\($0.text)" : "\($0.count) perform requests\($0.text)" }
    }

    private static func lines(_ host: LuaHost, _ belongs: (Entry) -> Bool) -> [String] {
        var lines: [String] = []
        for mode in host.loop.modeNames {
            let entries = entries(host, mode).filter { $0.kind != "observer" && belongs($0) }
            guard !entries.isEmpty else { continue }
            lines.append("mode \"\(mode.rawValue.shownInLine)\":")
            for entry in entries { lines.append("  " + line(entry, host.loop.now.nanoseconds)) }
        }
        return lines
    }
}
