import Foundation
import TestSupport
import Testing

@Suite(
    "Comparison with CoreFoundation", .timed,
    .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer))
struct OracleTests {
    /// The script prints the programs that differ, with their seeds.
    @Test("random programs behave as on CoreFoundation's run loop, including wake-ups", .soak(seconds: 60))
    func programs() throws {
        let run = try Binary.shell(
            "exec \(Binary.repository)/scripts/soak corefoundation \(Soak.length) \(Soak.seed)", timeout: 300)
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(run.output.contains("corefoundation: 0 of "), "\(run.output)")
    }
}
