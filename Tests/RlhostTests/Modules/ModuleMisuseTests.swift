import TestSupport
import Testing

/// The modules' functions and methods with arguments that make no sense.
@Suite struct ModuleMisuseTests {
    @Test("wrong arguments are an error under the function's name, or an answer, and never a crash", arguments: 1...6)
    func wrongArgumentsAreAnErrorUnderThe(_ seed: Int) throws {
        let run = try Binary.run([
            "\(Binary.repository)/Tests/Scripts/module-misuse.lua", "\(seed)", "400",
            "\(Binary.repository)/docs/lua",
        ])
        #expect(run.status == 0 && run.output == "done\n", "\(run.output)\(run.errors)")
    }
}
