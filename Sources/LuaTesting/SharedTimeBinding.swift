internal import Linux
internal import Lua
internal import LuaRunLoops
internal import RunLoops

/// The programs that live in a test's time, for the test library.
enum SharedTimeBinding {
    static let functions: [Library.Entry] = [
        .init("clock_address") { clockAddress(Call($0)) },
        .init("expect_program") { expectProgram(Call($0)) },
        .init("forget_program") { forgetProgram(Call($0)) },
        .init("is_clocks") { isClocks(Call($0)) },
    ]

    private static func world(_ call: Call) -> TestWorld? { call.luaHost.part(TestPart.self).world }

    /// clock_address(): the variable by which programs join this time, and its value; nil and why not.
    private static func clockAddress(_ call: Call) -> Int32 {
        guard let world = world(call) else { return call.answerNil() }
        do throws(SystemError) {
            var program = ValueProgram()
            program.append(SharedTime.variable)
            program.append(try world.clock.familyAddress())
            return call.answer(program)
        } catch {
            return call.fail(error)
        }
    }

    /// forget_program(pid): it has ended.
    private static func forgetProgram(_ call: Call) -> Int32 {
        if let process = call.integer(1) { world(call)?.clock.forgetMember(Int32(clamping: process)) }
        return call.nothing()
    }

    /// is_clocks(fd): whether a descriptor is what programs share the time by.
    private static func isClocks(_ call: Call) -> Int32 {
        guard let world = world(call), let fd = call.integer(1) else { return call.answer(false) }
        return call.answer(world.clock.owns(Int32(clamping: fd)))
    }

    /// expect_program(pid): it was started to join.
    private static func expectProgram(_ call: Call) -> Int32 {
        if let process = call.integer(1) { world(call)?.clock.expectMember(Int32(clamping: process)) }
        return call.nothing()
    }
}
