import Testing

/// The modules that are tested in Lua, with the test runner.
@Suite struct ModuleTests {
    @Test(arguments: ["json_test.lua", "net_test.lua"])
    func `the tests of the module pass`(_ name: String) throws {
        let run = try Binary.run(["test", "\(Binary.repository)/Tests/Lua/\(name)"])
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }
}
