internal import Lua

/// Gives the error texts of Swift's checks to `runloop.misuse`, which checks arguments in the modules written in Lua,
/// so that both use the same words.
enum MisuseBinding {
    static let battery = Battery(part: "runloop.misuse", functions: functions)

    private static let functions = Library([
        // (value): Returns the value as an error message shows it.
        .init("describe") { Call($0).answer(Call($0).describe(1)) },
        // (name, known names …): Returns the intended name, or nil.
        .init("nearest") { call in
            let call = Call(call)
            return nearest(to: call.string(1) ?? "", known(call)).map { call.answer($0) } ?? call.answerNil()
        },
        // (options, declaration, function, number of the argument): Raises unless the options are right.
        .checkFields,
    ])

    private static func known(_ call: Call) -> [String] {
        call.count < 2 ? [] : (2...call.count).compactMap { call.string($0) }
    }
}

/// Gives `runloop.hints` the names of the modules that scripts can require.
enum HintsBinding {
    static let battery = Battery(part: "runloop.hints", functions: functions)

    private static let functions = Library([
        // (): Returns the names in a list.
        .init("modules") { call in
            let names = Set(Call(call).luaHost.batteries().filter(\.isPublic).map(\.module))
            var program = ValueProgram()
            program.table { table in for name in names.sorted() { table.element { $0.append(name) } } }
            return Call(call).answer(program)
        }
    ])
}
