import Foundation
import Testing

@Suite("Examples")
struct ExampleTests {
    static let folder = ProgramRun.root.appending(path: "scripts/examples")

    @Test("the clock says how late each tick is, and the lateness does not add up")
    func clock() async throws {
        let run = try await ProgramRun.rlhost("scripts/examples/clock.lua", "5", "0.03")
        #expect(run.status == 0, "\(run.errors)")
        let lateness = run.output.matches(of: /tick (\d+)  \d\d:\d\d:\d\d  (-?[\d.]+) ms late\n/).compactMap {
            Double($0.2)
        }
        #expect(!lateness.isEmpty && lateness.allSatisfy { $0 >= 0 }, "never early: \(run.output)")
        #expect(run.output.contains(/tick \d+ .*\nworst: [\d.]+ ms\n$/))
    }
}
