import TestSupport
import Testing

/// The modules' functions and methods with arguments that make no sense.
@Suite(.timed) struct ModuleMisuseTests {
    @Test("wrong arguments raise an error that names the function, or return one, and never crash", .soak(seconds: 60))
    func wrongArgumentsAreAnErrorUnderThe() throws {
        for seed in Soak.seeds {
            let run = try Binary.run([
                "\(Binary.repository)/Tests/Host/Scripts/module-misuse.lua", "\(seed)", "200",
                "\(Binary.repository)/docs/lua",
            ])
            #expect(run.status == 0 && run.output == "done\n", "seed \(seed): \(run.output)\(run.errors)")
        }
    }
}
