internal import RunLoops

extension Recording {
    /// The activity of one loop in the last moments, summed up from its records: a row of `rlhost top`, and its places.
    package struct Activity {
        /// The activity of callbacks with one name.
        package struct Place {
            package var count = 0
            /// Nanoseconds in the window.
            package var total: UInt64 = 0
            /// Nanoseconds of the longest call, including its part before the window.
            package var longest: UInt64 = 0
            /// The number of calls that were at least 1 ms late.
            package var late = 0
            /// The time of the latest call, and of the longest call before it.
            fileprivate var latest: UInt64 = 0
            fileprivate var before: UInt64 = 0

            mutating func add(_ other: Place) {
                count += other.count
                total += other.total
                longest = max(longest, other.longest)
                late += other.late
            }
        }

        /// Nanoseconds of the window.
        package private(set) var window: UInt64 = 0
        package private(set) var passes = 0
        package private(set) var wakes = 0
        /// Nanoseconds awake.
        package private(set) var awake: UInt64 = 0
        package private(set) var places: [UInt32: Place] = [:]
        /// The label of the innermost run's mode; 0 if the loop does not run.
        package private(set) var mode: UInt32 = 0
        /// The label of the callback in progress, and how long it has run; 0 if there is none.
        package private(set) var current: UInt32 = 0
        package private(set) var since: UInt64 = 0
        /// Nanoseconds of each callback that has ended in the window, if wanted.
        package private(set) var lengths: [UInt64] = []
        private let keepsLengths: Bool

        package static let lateness: UInt64 = 1_000_000

        private struct Level {
            var object: UInt32
            var time: UInt64
            var due: UInt64
            var isRun: Bool
        }

        /// - Parameters:
        ///   - records: Whole records of one loop, in order. Earlier records show which callbacks were in progress.
        ///   - dropped: Whether earlier records are lost, so that nothing is known about the time before the first
        ///     record.
        ///   - start, end: The window.
        package init(
            _ records: UnsafeRawBufferPointer, dropped: Bool, from start: UInt64, to end: UInt64,
            keepsLengths: Bool = false
        ) {
            self.keepsLengths = keepsLengths
            guard records.count >= Record.size else { return }
            let first = Record(records, at: 0).time
            let start = dropped ? max(start, first) : start
            guard end > start else { return }
            window = end - start
            var asleep: UInt64 = 0
            var sleep: UInt64?
            var open: [Level] = []
            for offset in stride(from: 0, to: records.count - Record.size + 1, by: Record.size) {
                let record = Record(records, at: offset)
                let isIn = record.time >= start
                switch Record.Kind(rawValue: record.kind) {
                case .pass: if isIn { passes += 1 }
                case .sleep: sleep = record.time
                case .wake:
                    if let began = sleep, record.time > start { asleep += record.time - max(began, start) }
                    if isIn { wakes += 1 }
                    sleep = nil
                case .run: open.append(Level(object: record.object, time: record.time, due: 0, isRun: true))
                case .begin: open.append(Level(object: record.object, time: record.time, due: record.a, isRun: false))
                case .runEnd: if open.last?.isRun ?? false { open.removeLast() }
                case .end:
                    guard let level = open.last, !level.isRun else { continue }
                    open.removeLast()
                    if isIn { add(level.object, from: level.time, to: record.time, due: level.due, since: start) }
                case .delayed: excuse(record.object, record.a)
                case .whole:
                    let ended = record.time &+ record.a
                    if ended >= start { add(record.object, from: record.time, to: ended, due: 0, since: start) }
                default: break
                }
            }
            if let sleep, end > sleep { asleep += end - max(sleep, start) }
            awake = window - min(window, asleep)
            mode = open.last { $0.isRun }?.object ?? 0
            // A callback in progress counts up to now.
            if let level = open.last(where: { !$0.isRun }), sleep == nil, end > level.time {
                current = level.object
                since = end - level.time
                add(level.object, from: level.time, to: end, due: level.due, since: start)
            }
        }

        private mutating func add(
            _ object: UInt32, from began: UInt64, to ended: UInt64, due: UInt64, since start: UInt64
        ) {
            let time = ended > began ? ended - began : 0
            if keepsLengths { lengths.append(time) }
            var place = places[object] ?? Place()
            place.count += 1
            place.total += min(time, ended > start ? ended - start : 0)
            (place.before, place.latest) = (place.longest, time)
            place.longest = max(place.longest, time)
            if due > 0, began > due, began - due >= Self.lateness { place.late += 1 }
            places[object] = place
        }

        /// Subtracts the nanoseconds for which the latest callback's thread waited for a processor from its length.
        private mutating func excuse(_ object: UInt32, _ delay: UInt64) {
            guard var place = places[object] else { return }
            place.longest = max(place.before, place.latest - min(place.latest, delay))
            if let last = lengths.last { lengths[lengths.count - 1] = last - min(last, delay) }
            places[object] = place
        }

        /// Appends the activity as JSON, with the busiest places.
        package func append(
            to text: inout [UInt8], loop: String, number: UInt16, places most: Int, name: (UInt32) -> Name
        ) {
            func field(_ key: String, _ value: UInt64) {
                text.append(contentsOf: ",\"\(key)\":")
                text.append(decimal: value)
            }
            let busiest = places.sorted { ($0.value.total, $1.key) > ($1.value.total, $0.key) }
            let longest = places.max { $0.value.longest < $1.value.longest }
            text.append(contentsOf: "{\"loop\":")
            text.append(quoted: loop)
            field("number", UInt64(number))
            field("window", window)
            field("passes", UInt64(passes))
            field("wakes", UInt64(wakes))
            field("awake", awake)
            field("callbacks", UInt64(places.values.reduce(0) { $0 + $1.count }))
            field("late", UInt64(places.values.reduce(0) { $0 + $1.late }))
            field("longest", longest?.value.longest ?? 0)
            field("since", since)
            for (key, object) in [("longest_name", longest?.key ?? 0), ("mode", mode), ("current", current)]
            where object != 0 {
                text.append(contentsOf: ",\"\(key)\":")
                let name = name(object)
                let place = name.place.split(separator: "/").last ?? ""
                text.append(quoted: place.isEmpty ? name.text : "\(name.text) \(place)")
            }
            var kinds: [String: Place] = [:]
            for (object, place) in places { kinds[name(object).kind.rawValue, default: Place()].add(place) }
            text.append(contentsOf: ",\"kinds\":[")
            for (index, (kind, sum)) in kinds.sorted(by: { ($0.value.total, $1.key) > ($1.value.total, $0.key) })
                .enumerated()
            {
                text.append(contentsOf: index == 0 ? "{\"kind\":" : ",{\"kind\":")
                text.append(quoted: kind)
                field("count", UInt64(sum.count))
                field("total", sum.total)
                field("late", UInt64(sum.late))
                text.append(UInt8(ascii: "}"))
            }
            text.append(contentsOf: "],\"places\":[")
            for (index, (object, place)) in busiest.prefix(most).enumerated() {
                let name = name(object)
                text.append(contentsOf: index == 0 ? "{\"kind\":" : ",{\"kind\":")
                text.append(quoted: name.kind.rawValue)
                text.append(contentsOf: ",\"name\":")
                text.append(quoted: name.text)
                text.append(contentsOf: ",\"place\":")
                text.append(quoted: name.place)
                field("count", UInt64(place.count))
                field("total", place.total)
                field("longest", place.longest)
                field("late", UInt64(place.late))
                text.append(UInt8(ascii: "}"))
            }
            text.append(contentsOf: "]}")
        }
    }
}
