import Foundation
import TestSupport
import Testing

/// Editors and readers rely on docs/lua/runloop.lua, so it has to be true.
@Suite("Reference", .timed)
struct ReferenceTests {
    private static let reference = Binary.repository + "/docs/lua/runloop.lua"

    /// - Parameter root: a directory in which there is docs/lua/runloop.lua.
    private static func compare(_ root: String) throws -> String {
        let run = try Binary.run([Binary.repository + "/Tests/Program/reference.lua", root])
        #expect(run.status == 0, "\(run.errors)")
        return run.output
    }

    @Test("every function is annotated, and every annotated function exists")
    func agrees() throws {
        let differences = try Self.compare(Binary.repository)
        #expect(differences.isEmpty, "docs/lua/runloop.lua and the program differ:\n\(differences)")
    }

    @Test(
        "a difference is reported",
        arguments: [
            ("function rl.now() end", "", "rl.now exists, but is not annotated"),
            ("function rl.now() end", "function rl.know() end", "rl.know is annotated in line"),
            ("function Timer:fire() end", "", "timer:fire exists, but is not annotated"),
            (
                "function Timer:fire() end", "function Timer:fire(now) end",
                "fire has the parameters (now), annotated are ()"
            ),
            ("---@field modal ", "---@field modest ", "rl.modes.modal exists, but is not annotated"),
            (
                "---@field tolerance? ", "---@field tolerant? ",
                "TimerOptions has the field 'tolerant', which is refused"
            ),
            ("function rl.timeout(", "function rl.time_out(", "rl.timeout exists, but is not annotated"),
        ])
    func notices(original: String, changed: String, message: String) throws {
        let reference = try String(contentsOfFile: Self.reference, encoding: .utf8)
        try #require(reference.contains(original))
        let text = reference.replacing(original, with: changed, maxReplacements: 1)
        try Binary.withDirectory { root in
            try FileManager.default.createDirectory(atPath: root + "/docs/lua", withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(filePath: root + "/docs/lua/runloop.lua"))
            let differences = try Self.compare(root)
            #expect(differences.contains(message), "\(differences)")
        }
    }

    /// The tables in the source that list the fields of options: editors must know all fields that a script may write.
    @Test("every field of every options table is annotated")
    func fields() throws {
        let sources = Binary.repository + "/Sources"
        // The annotations of the modules are beside it.
        let directory = Binary.repository + "/docs/lua/"
        let modules = try FileManager.default.contentsOfDirectory(atPath: directory).map {
            try String(contentsOfFile: directory + $0, encoding: .utf8)
        }
        let annotated = Set(modules.joined().matches(of: /---@field ([a-z_]+)/).map { String($0.1) })
        var found = 0
        for case let path as String in FileManager.default.enumerator(atPath: sources) ?? .init()
        // The options of bridges are for their own parts in Lua.
        where path.hasSuffix("Binding.swift") && !path.contains("/bridges/") || path.hasSuffix("prelude.lua")
            || path.hasSuffix("notifications.lua")
        {
            let text = try String(contentsOfFile: "\(sources)/\(path)", encoding: .utf8)
            let lists =
                text.matches(of: /names: \[StaticString\] = \[([^\]]*)\]/).map { $0.1.matches(of: /"(\w+)"/).map(\.1) }
                + text.matches(of: /local [A-Z]+ = \{([^}]*= true[^}]*)\}/).map {
                    $0.1.matches(of: /(\w+) = true/).map(\.1)
                }
            for name in lists.joined() where name != "now" && name != "asap" && name != "idle" {
                found += 1
                #expect(annotated.contains(String(name)), "\(path) takes an option '\(name)' that is not annotated")
            }
        }
        #expect(found > 30, "the sources list their options in a form that this test does not know any more")
    }
}
