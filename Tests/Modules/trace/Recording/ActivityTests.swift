import TestSupport
import Testing

@testable import Tracing
import RunLoops

@Suite("Recent activity of a loop", .timed)
struct ActivityTests {
    private static func activity(
        _ records: [Recording.Record], dropped: Bool = false, from start: UInt64 = 1000, to end: UInt64 = 2000
    ) -> Recording.Activity {
        records.withUnsafeBytes { Recording.Activity($0, dropped: dropped, from: start, to: end) }
    }

    @Test("counts passes, wakes, time awake, callbacks, and late callbacks")
    func counts() {
        let ms: UInt64 = 1_000_000
        let activity = Self.activity(
            [
                .init(time: 1000, kind: .run, object: 9), .init(time: 1000, kind: .pass),
                .init(time: 1000, kind: .sleep), .init(time: 1000 + 10 * ms, kind: .wake, a: 1),
                .init(time: 1000 + 10 * ms, kind: .begin, object: 1, a: 1000 + 8 * ms),
                .init(time: 1000 + 13 * ms, kind: .end, object: 1),
                .init(time: 1000 + 13 * ms, kind: .whole, object: 2, a: ms),
                .init(time: 1000 + 14 * ms, kind: .passEnd), .init(time: 1000 + 14 * ms, kind: .pass),
                .init(time: 1000 + 15 * ms, kind: .sleep),
            ], to: 1000 + 20 * ms)
        #expect(activity.window == 20 * ms && activity.passes == 2 && activity.wakes == 1)
        #expect(activity.awake == 5 * ms)
        #expect(activity.mode == 9 && activity.current == 0)
        #expect(activity.places.count == 2)
        #expect(activity.places[1]?.count == 1 && activity.places[1]?.total == 3 * ms && activity.places[1]?.late == 1)
        #expect(activity.places[2]?.longest == ms && activity.places[2]?.late == 0)
    }

    @Test("earlier records do not count, except for the state that they give")
    func window() {
        let activity = Self.activity([
            .init(time: 100, kind: .run, object: 9), .init(time: 200, kind: .whole, object: 1, a: 300),
            .init(time: 500, kind: .pass), .init(time: 600, kind: .sleep), .init(time: 1400, kind: .wake),
        ])
        #expect(activity.window == 1000 && activity.awake == 600 && activity.wakes == 1 && activity.passes == 0)
        #expect(activity.places.isEmpty && activity.mode == 9)
    }

    @Test("a callback that still runs counts up to now")
    func running() {
        let activity = Self.activity([
            .init(time: 100, kind: .sleep), .init(time: 900, kind: .wake), .init(time: 900, kind: .begin, object: 4),
        ])
        #expect(activity.awake == 1000 && activity.current == 4 && activity.since == 1100)
        #expect(activity.places[4]?.total == 1000 && activity.places[4]?.longest == 1100)
    }

    @Test("an earlier callback counts with its time in the window; the longest is reported in full")
    func before() {
        let activity = Self.activity([
            .init(time: 200, kind: .begin, object: 4), .init(time: 1300, kind: .end, object: 4),
            .init(time: 1250, kind: .whole, object: 5, a: 100), .init(time: 900, kind: .whole, object: 6, a: 150),
        ])
        #expect(activity.places[4]?.total == 300 && activity.places[4]?.longest == 1100)
        #expect(activity.places[5]?.total == 100 && activity.places[5]?.longest == 100)
        #expect(activity.places[6]?.total == 50 && activity.places[6]?.longest == 150)
    }

    @Test("a ring that has lost the beginning is evaluated from its first record")
    func dropped() {
        let records = [
            Recording.Record(time: 1500, kind: .end, object: 1), .init(time: 1600, kind: .runEnd),
            .init(time: 1700, kind: .whole, object: 2, a: 100),
        ]
        #expect(Self.activity(records, dropped: true).window == 500)
        #expect(Self.activity(records).window == 1000)
        #expect(Self.activity(records, dropped: true).places[1] == nil)
        #expect(Self.activity([]).window == 0)
    }

    @Test("writes JSON, the busiest places first")
    func text() {
        let activity = Self.activity([
            .init(time: 1000, kind: .whole, object: 1, a: 10), .init(time: 1100, kind: .whole, object: 2, a: 20),
            .init(time: 1200, kind: .whole, object: 3, a: 5),
        ])
        var text: [UInt8] = []
        activity.append(to: &text, loop: "a\"b", number: 3, places: 2) {
            .init(kind: .timer, text: "t\($0)", place: "p:1")
        }
        #expect(
            String(decoding: text, as: UTF8.self)
                == #"{"loop":"a\"b","number":3,"window":1000,"passes":0,"wakes":0,"awake":1000,"callbacks":3,"late":0,"#
                + #""longest":20,"#
                + #""since":0,"longest_name":"t2 p:1","kinds":[{"kind":"timer","count":3,"total":35,"late":0}],"#
                + #""places":[{"kind":"timer","name":"t2","place":"p:1","count":1,"total":20,"longest":20,"#
                + #""late":0},{"kind":"timer","name":"t1","place":"p:1","count":1,"total":10,"longest":10,"late":0}]}"#)
    }
}
