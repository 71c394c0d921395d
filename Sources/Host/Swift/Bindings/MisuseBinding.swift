internal import Lua

/// Gives `runloop.misuse`, the checks of the modules written in Lua, the texts of the checks in Swift, so that both say
/// the same.
enum MisuseBinding {
    static let battery = Battery("runloop.misuse", functions: functions)

    private static let functions = Library([
        // (value): Returns the value as an error message shows it.
        .init("describe") { Call($0).answer(Call($0).describe(1)) },
        // (name, known names …): Returns the name that is meant, or nil.
        .init("nearest") { call in
            let call = Call(call)
            return nearest(to: call.string(1) ?? "", known(call)).map { call.answer($0) } ?? call.answerNil()
        },
        // (name, known names …): Returns the end of a message about an unknown name.
        .init("hint") { Call($0).answer(Misuse.hint(for: Call($0).string(1) ?? "", known(Call($0)))) },
    ])

    private static func known(_ call: Call) -> [String] {
        call.count < 2 ? [] : (2...call.count).compactMap { call.string($0) }
    }
}
