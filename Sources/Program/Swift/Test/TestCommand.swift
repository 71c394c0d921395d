import Glibc
import Lua
import LuaRunLoops
import LuaTesting
import RunLoops

/// `rlhost test`: scripted integration tests. See docs/testing.md.
///
/// The runner and its reports are written in Lua, and run on a real loop. The tests run in worker processes, each with a
/// loop in virtual time: whatever a test does to its process, the runner lives to tell.
enum TestCommand {
    /// What a test may require, beside what any script may.
    static let batteries: @Sendable () -> [Battery] = { [.testing] + Program.batteries() }

    /// - Parameters:
    ///   - options: those before `test`: `-E`, `-W`, `-e` and `-l` hold for the state of each test file.
    ///   - arguments: all of the program's.
    static func run(_ options: Options, _ arguments: [String]) -> Int32 {
        // A runner, and its tests, have times of their own.
        unsetenv(SharedTime.variable)
        unsetenv(SharedCoverage.variable)
        // The runner has drawn from it; the tests have the seed of --seed.
        unsetenv(ProgramSeed.variable)
        let word = options.script ?? 0
        let own = Array(arguments[(word + 1)...])
        if own.first == "--worker" {
            let seed = own.dropFirst().first.flatMap { UInt($0) } ?? 0
            return TestCommand.Worker(options: options, seed: UInt32(truncatingIfNeeded: seed)).run()
        }
        guard !options.isInteractive, !options.checksSyntax else {
            Program.report("test: -i and -c make no sense before it")
            return 64
        }
        guard options.attachName == nil else {
            Program.report("test: --attach makes no sense before it; a test can call rl.attach()")
            return 64
        }
        // How many options come before the word, these, for the workers; then ours.
        let words = ["\(word - 1)"] + Array(arguments[1..<word]) + own
        let hasBegun = Program.run(
            "runloop.test.command", words, batteries: batteries, ignoringEnvironment: options.ignoresEnvironment)
        if hasBegun { Program.report("the test runner has lost its workers") }
        return 1
    }
}
