import TestSupport
import Testing

@Suite("Ports", .timed)
struct PortTests {
    @Test("the checks of a script about wrong calls of ports pass", arguments: ["port-misuse.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(ThreadTests.folder)/\(script)") }
}
