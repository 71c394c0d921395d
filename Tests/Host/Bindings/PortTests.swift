import TestSupport
import Testing

@Suite("Ports", .timed)
struct PortTests {
    @Test("ports do what the script expects, misuse included", arguments: ["port-misuse.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(ThreadTests.folder)/\(script)") }
}
