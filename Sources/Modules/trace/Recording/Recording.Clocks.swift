extension Recording {
    /// Finds how the clocks of several processes differ, from the messages between them.
    ///
    /// A message arrives after it has left. So messages in both directions between two processes give a lower and an
    /// upper bound of the difference of their clocks, which are as far apart as the shortest round trip. The bounds of
    /// all pairs are combined by an algorithm for shortest paths. The middle between the bounds keeps every arrow
    /// forwards. If the clocks drifted meanwhile, no constant difference satisfies all bounds, which are then loosened
    /// as little as possible.
    struct Clocks {
        struct Alignment {
            /// Nanoseconds to add to the process's times.
            var offset: Int64 = 0
            /// By how much the offset may be wrong; nil if nothing bounds it.
            var error: Int64?
            var sharesClock = false
        }

        private var origins: [(process: Int64, origin: Origin)] = []
        private var departures: [UInt64: (process: Int64, time: UInt64)] = [:]
        private var arrivals: [(message: UInt64, sentAt: UInt64, process: Int64, time: UInt64)] = []
        private var earliest: [Int64: UInt64] = [:]

        mutating func add(_ process: Int64, _ origin: Origin) {
            if !origins.contains(where: { $0.process == process }) { origins.append((process, origin)) }
        }

        mutating func saw(_ process: Int64, at time: UInt64) {
            earliest[process] = min(earliest[process] ?? time, time)
        }

        mutating func departed(_ message: UInt64, _ process: Int64, at time: UInt64) {
            departures[message] = (process, time)
        }

        mutating func arrived(_ message: UInt64, _ process: Int64, at time: UInt64, sentAt: UInt64) {
            arrivals.append((message, sentAt, process, time))
        }

        /// The greatest contradiction between two processes that claim to have the same clock.
        private static let trusted: Int64 = 1_000_000

        /// Returns the alignment of each process with the first one. O(n³) for n processes, O(1) for each message.
        func aligned() -> [Int64: Alignment] {
            guard origins.count > 1 else {
                return origins.first.map { [$0.process: Alignment(error: 0, sharesClock: true)] } ?? [:]
            }
            let measured = bounds()
            var bounds = measured
            shareClocks(&bounds)
            var slack = Self.slack(of: bounds)
            var sharing = true
            if slack > Self.trusted {
                (bounds, slack, sharing) = (measured, Self.slack(of: measured), false)
            }
            return place(Self.closed(bounds, slack), bounds, slack, sharing)
        }

        /// Bounds of the differences: the most by which the offset of the row may exceed the offset of the column.
        private typealias Bounds = [[Int64]]
        private static let unknown: Int64 = 1 << 62
        /// The greatest difference of clocks, 73 years: sums of two are not `unknown`.
        private static let greatest: Int64 = 1 << 61

        private static func sum(_ one: Int64, _ other: Int64) -> Int64 {
            let (sum, isTooLarge) = one.addingReportingOverflow(other)
            return isTooLarge ? (one < 0 ? -greatest : greatest) : max(-greatest, min(greatest, sum))
        }

        /// Returns the bounds that messages give.
        private func bounds() -> Bounds {
            var bounds = Bounds(
                repeating: .init(repeating: Self.unknown, count: origins.count), count: origins.count)
            let places = Dictionary(uniqueKeysWithValues: origins.enumerated().map { ($1.process, $0) })
            let senders = Dictionary(
                origins.enumerated().map { ($1.origin.identity, $0) }, uniquingKeysWith: { first, _ in first })
            func note(_ from: Int?, _ to: Int?, _ sent: UInt64, _ time: UInt64) {
                guard let from, let to, from != to else { return }
                bounds[from][to] = min(bounds[from][to], Self.sum(Int64(clamping: time), -Int64(clamping: sent)))
            }
            for one in arrivals {
                let sender = UInt32(truncatingIfNeeded: one.message >> 32)
                if let departure = departures[one.message] {
                    note(places[departure.process], places[one.process], departure.time, one.time)
                } else if sender != 0, one.sentAt != 0 {
                    note(senders[sender], places[one.process], one.sentAt, one.time)
                }
            }
            return bounds
        }

        private func shareClocks(_ bounds: inout Bounds) {
            for one in origins.indices {
                for other in origins.indices
                where one != other && origins[one].origin.machine != 0
                    && origins[one].origin.machine == origins[other].origin.machine
                {
                    bounds[one][other] = min(bounds[one][other], 0)
                }
            }
        }

        /// Adds `slack` to each bound, and returns the tightest bounds that follow from all of them; nil if they
        /// contradict each other.
        private static func closed(_ bounds: Bounds, _ slack: Int64) -> Bounds? {
            var closed = bounds.map { $0.map { $0 == unknown ? unknown : sum($0, slack) } }
            for place in closed.indices { closed[place][place] = 0 }
            for middle in closed.indices {
                for one in closed.indices where closed[one][middle] != unknown {
                    let first = closed[one][middle]
                    for other in closed.indices where closed[middle][other] != unknown {
                        closed[one][other] = min(closed[one][other], sum(first, closed[middle][other]))
                    }
                }
                for place in closed.indices where closed[place][place] < 0 { return nil }
            }
            return closed
        }

        /// Returns by how many nanoseconds the bounds have to be loosened at least.
        private static func slack(of bounds: Bounds) -> Int64 {
            if closed(bounds, 0) != nil { return 0 }
            var (low, high): (Int64, Int64) = (0, 1)
            while closed(bounds, high) == nil, high < greatest { (low, high) = (high, high * 2) }
            while high - low > 1 {
                let middle = (low + high) / 2
                if closed(bounds, middle) == nil { low = middle } else { high = middle }
            }
            return high
        }

        private func place(
            _ closed: Bounds?, _ bounds: Bounds, _ slack: Int64, _ sharing: Bool
        ) -> [Int64: Alignment] {
            guard let closed else { return [:] }
            var placed: [Int: Alignment] = [:]
            for head in origins.indices where placed[head] == nil {
                // The processes that are connected with this one by messages in both directions; this one is the first.
                var group: [Int: Alignment] = [:]
                for one in origins.indices
                where placed[one] == nil && closed[one][head] != Self.unknown && closed[head][one] != Self.unknown {
                    let machine = origins[one].origin.machine
                    group[one] = Alignment(
                        offset: (closed[one][head] - closed[head][one]) / 2,
                        error: max(slack, (closed[one][head] + closed[head][one]) / 2),
                        sharesClock: sharing && machine != 0 && machine == origins[0].origin.machine || one == 0)
                }
                let shift = head == 0 ? 0 : move(group, head, beside: placed, bounds)
                for (one, alignment) in group {
                    placed[one] = Alignment(
                        offset: Self.sum(alignment.offset, shift), error: head == 0 ? alignment.error : nil,
                        sharesClock: alignment.sharesClock)
                }
            }
            return afterZero(placed)
        }

        /// Returns the offset of a group without messages in both directions: the difference of the machines' clocks,
        /// as far as messages in one direction allow it.
        private func move(
            _ group: [Int: Alignment], _ head: Int, beside placed: [Int: Alignment], _ bounds: Bounds
        ) -> Int64 {
            let (own, first) = (origins[head].origin.zero, origins[0].origin.zero)
            var shift = own != 0 && first != 0 ? Self.sum(Int64(clamping: own), -Int64(clamping: first)) : 0
            for (one, alignment) in group {
                for (other, fixed) in placed {
                    let distance = Self.sum(fixed.offset, -alignment.offset)
                    if bounds[one][other] != Self.unknown { shift = min(shift, Self.sum(distance, bounds[one][other])) }
                    if bounds[other][one] != Self.unknown {
                        shift = max(shift, Self.sum(distance, -bounds[other][one]))
                    }
                }
            }
            return shift
        }

        /// Shifts all clocks by the same amount, so that no time is before 0.
        private func afterZero(_ placed: [Int: Alignment]) -> [Int64: Alignment] {
            var least: Int64 = 0
            for (place, alignment) in placed {
                guard let time = earliest[origins[place].process] else { continue }
                least = min(least, Self.sum(Int64(clamping: time), alignment.offset))
            }
            var result: [Int64: Alignment] = [:]
            for (place, alignment) in placed {
                var moved = alignment
                moved.offset = Self.sum(moved.offset, -least)
                result[origins[place].process] = moved
            }
            return result
        }
    }
}
