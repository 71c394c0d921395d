import RunLoops
import TestSupport
import Testing

@Suite("Instants", .timed)
struct InstantTests {
    @Test("adding a duration saturates at the ends of time instead of trapping")
    func saturates() {
        let late = RunLoop.Instant(nanoseconds: .max - 1)
        #expect(late + .seconds(1) == .never)
        #expect(RunLoop.Instant(nanoseconds: .min + 1) + .seconds(-1) == .longAgo)
        #expect(late + .seconds(Int64.max) == .never)
    }

    @Test("a part of a nanosecond counts as a whole one so that nothing is early")
    func roundsUp() {
        let start = RunLoop.Instant(nanoseconds: 5)
        #expect(start + Duration(secondsComponent: 0, attosecondsComponent: 1) == RunLoop.Instant(nanoseconds: 6))
        #expect(start + .nanoseconds(1) == RunLoop.Instant(nanoseconds: 6))
        #expect(start + .nanoseconds(1) - start == .nanoseconds(1))
    }
}
