internal import Lua

/// What `runloop.misuse`, the checks of the modules written in Lua, has of the checks in Swift: both say the same.
enum MisuseBinding {
    static let battery = Battery("runloop.misuse", functions: functions)

    private static let functions = Library([
        // (value): as an error message shows it.
        .init("describe") { Call($0).answer(Call($0).describe(1)) },
        // (name, known names …): the one that is meant, or nil.
        .init("nearest") { call in
            let call = Call(call)
            return nearest(to: call.string(1) ?? "", known(call)).map { call.answer($0) } ?? call.answerNil()
        },
        // (name, known names …): what is said behind the name.
        .init("hint") { Call($0).answer(Misuse.hint(for: Call($0).string(1) ?? "", known(Call($0)))) },
    ])

    private static func known(_ call: Call) -> [String] {
        call.count < 2 ? [] : (2...call.count).compactMap { call.string($0) }
    }
}
