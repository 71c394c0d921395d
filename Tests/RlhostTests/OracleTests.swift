import Foundation
import TestSupport
import Testing

@Suite("Beside CoreFoundation", .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer))
struct OracleTests {
    /// Other programs each time; those that differ are printed with their seeds. The script goes on for as long as one likes.
    @Test("random programs do what they do on CoreFoundation's run loop, wake-ups included")
    func programs() throws {
        let run = try Binary.shell(
            "RLHOST='\(Binary.path)' exec python3 \(Binary.repository)/scripts/beside-corefoundation 60",
            environment: ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? ""], timeout: 300)
        #expect(run.status == 0, "\(run.output) \(run.errors)")
        #expect(run.output.contains("beside-corefoundation: 0 of "), "\(run.output)")
    }
}
