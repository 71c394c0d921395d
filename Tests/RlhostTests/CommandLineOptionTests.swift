import Testing

@Suite("Command line: options")
struct CommandLineOptionTests {
    @Test("-e runs a text")
    func execute() throws {
        let result = try Binary.run(["-e", "print(1 + 1)"])
        #expect(result.output == "2\n" && result.status == 0 && result.errors.isEmpty)
    }
}
