internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// For the test library: the programs that share the time of a test.
enum SharedTimeBinding {
    static let functions: [Library.Entry] = [
        .init("clock_address") { clockAddress(Call($0)) },
        // expect_program(pid): records that the program was started to join the clock.
        .init("expect_program") { TestWorld.act($0) { $0.clock.expectMember(Int32(clamping: $1.integer(1) ?? 0)) } },
        // forget_program(pid): records that the program has ended.
        .init("forget_program") { TestWorld.act($0) { $0.clock.forgetMember(Int32(clamping: $1.integer(1) ?? 0)) } },
        .init("is_clocks") { isClocks(Call($0)) },
    ]

    /// clock_address(): returns the environment variable by which programs join this time, and its value; or nil and an
    /// error.
    private static func clockAddress(_ call: Call) -> Int32 {
        guard let world = call.testWorld else { return call.answerNil() }
        return call.attempt { () throws(SystemError) in
            var program = ValueProgram()
            program.append(SharedTime.variable)
            program.append(try world.clock.familyAddress())
            return program
        }
    }

    /// is_clocks(fd): returns whether programs share the time by this descriptor.
    private static func isClocks(_ call: Call) -> Int32 {
        guard let world = call.testWorld, let fd = call.integer(1) else { return call.answer(false) }
        return call.answer(world.clock.owns(Int32(clamping: fd)))
    }

}
