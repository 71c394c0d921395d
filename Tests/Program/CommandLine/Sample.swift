import Foundation
import TestSupport
import Testing

/// Scripts for tests of the command line, and the comparison with lua5.4.
enum Sample {
    private static let files: [String: String] = [
        "a.lua": "print(#arg, ...) for i = -6, 6 do if arg[i] then print(i, arg[i]) end end\n",
        "mod.lua": "print('mod', ...) return {x = 1}", "fails.lua": fails, "syntax.lua": "print(\n",
        "globals.lua": "print(rl)",
    ]

    private static let fails = """
        local function f() error('message') end
        local function g() f() end
        g()
        """

    /// Calls `body` with a directory that has a.lua (prints its arguments), -dash.lua and "sp ace.lua" (the same),
    /// mod.lua (a module), fails.lua (raises in a nested call), syntax.lua (does not compile) and globals.lua (prints
    /// `rl`).
    static func withFiles(_ body: (String) throws -> Void) throws {
        try Binary.withDirectory { directory in
            for (name, text) in files { try write(text, to: name, in: directory) }
            for name in ["-dash.lua", "sp ace.lua"] { try write(files["a.lua"] ?? "", to: name, in: directory) }
            try body(directory)
        }
    }

    static func write(_ text: String, to name: String, in directory: String) throws {
        try text.write(toFile: "\(directory)/\(name)", atomically: false, encoding: .utf8)
    }

    /// Runs rlhost and lua5.4, and expects the same output, errors and status. Addresses are left out.
    ///
    /// lua5.4 is run under the name "rlhost", so that its messages begin like ours.
    static func compare(
        _ arguments: [String], input: String? = nil, environment: [String: String] = [:], directory: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        guard let lua = Binary.lua else { return }
        let expected = try Binary.run(
            arguments, input: input, environment: environment, directory: directory, program: lua)
        let result = try Binary.run(arguments, input: input, environment: environment, directory: directory)
        #expect(
            withoutAddresses(result.outputBytes) == withoutAddresses(expected.outputBytes), "output",
            sourceLocation: sourceLocation)
        #expect(
            withoutAddresses(result.errorBytes) == withoutAddresses(expected.errorBytes), "errors",
            sourceLocation: sourceLocation)
        #expect(result.status == expected.status && result.signal == expected.signal, sourceLocation: sourceLocation)
    }

    /// The text, in which all addresses 0x… are replaced by the same one. Bytes that are not UTF-8 are shown as
    /// numbers, so that they are compared, too.
    private static func withoutAddresses(_ bytes: [UInt8]) -> String {
        let text =
            String(bytes: bytes, encoding: .utf8)
            ?? bytes.map { $0 < 128 ? String(UnicodeScalar($0)) : "<\($0)>" }.joined()
        return text.replacingOccurrences(of: "0x[0-9a-f]+", with: "0x", options: .regularExpression)
    }
}
