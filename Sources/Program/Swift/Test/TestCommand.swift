import Glibc
import Lua
import LuaRunLoops
import LuaTesting
import RunLoops

/// `rlhost test`: scripted integration tests. See docs/testing.md.
///
/// The runner and its reports are written in Lua, and run on a real loop. The tests run in worker processes, each with
/// a loop in virtual time. So the runner survives everything that a test does to its process, and reports it.
enum TestCommand {
    /// The modules of tests, besides those of every script.
    static let batteries: @Sendable () -> [Battery] = { [.testing] + Program.batteries() }

    /// - Parameters:
    ///   - options: The options before `test`: `-E`, `-W`, `-e` and `-l` apply to the state of each test file.
    ///   - arguments: All arguments of the program.
    static func run(_ options: Options, _ arguments: [String]) -> Int32 {
        // Remove the variable: if a test has started this runner, runner and tests must not join that test's virtual
        // time.
        unsetenv(SharedTime.variable)
        unsetenv(SharedCoverage.variable)
        // Remove the variable: it contains a seed for this process only. The tests use the seed of --seed.
        unsetenv(ProgramSeed.variable)
        let word = options.script ?? 0
        let own = Array(arguments[(word + 1)...])
        if own.first == "--worker" {
            let seed = own.dropFirst().first.flatMap { UInt($0) } ?? 0
            return TestCommand.Worker(options: options, seed: UInt32(truncatingIfNeeded: seed)).run()
        }
        guard !options.isInteractive, !options.checksSyntax else {
            Program.report("test: the options -i and -c make no sense before the command")
            return 64
        }
        guard options.attachName == nil else {
            Program.report("test: the option --attach makes no sense before the command; a test can call rl.attach()")
            return 64
        }
        // The words for the workers: the number of options before `test`, these options, and then our own options.
        let words = ["\(word - 1)"] + Array(arguments[1..<word]) + own
        let hasBegun = Program.run(
            "runloop.test.command", words, batteries: batteries, ignoringEnvironment: options.ignoresEnvironment)
        if hasBegun { Program.report("the test runner has lost its workers") }
        return 1
    }
}
