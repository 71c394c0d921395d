import Foundation
import TestSupport
import Testing

@Suite("Command line: scripts", .timed)
struct CommandLineScriptTests {
    /// Scripts in files, each with one peculiarity.
    static let scripts: [String: [UInt8]] = [
        "shebang": Array("#!/usr/bin/lua\nprint(debug.getinfo(1, 'l').currentline)\nerror('x')\n".utf8),
        "only a shebang": Array("#!/usr/bin/lua".utf8), "only a hash": Array("#".utf8), "empty": [],
        "byte order mark": [0xEF, 0xBB, 0xBF] + Array("print('bom')\n".utf8),
        "byte order mark and shebang": [0xEF, 0xBB, 0xBF] + Array("#!x\nprint('bom') error'y'\n".utf8),
        "carriage returns": Array("print('a')\r\nprint('b\\\r\nc')\r\nprint([[x\r\ny]])\r\nerror('z')\r\n".utf8),
        "embedded zero in a string": Array("print(#'a\0b', 'a\0b')\n".utf8),
        "embedded zero in the code": Array("print(1)\0print(2)\n".utf8),
        "bytes that are not text": Array("print(('".utf8) + [0xFF, 0xFE, 0x80] + Array("'):byte(1, -1)) error('".utf8)
            + [0xC3] + Array("')".utf8),
        "a very long line": Array("local s = '".utf8) + [UInt8](repeating: 120, count: 300_000)
            + Array("' print(#s)".utf8),
        "no end of line": Array("print(1)".utf8), "returns values": Array("return 5, 'x'".utf8),
        "damaged binary chunk": Array("\u{1B}Lua".utf8),
    ]

    @Test("reads a script as lua does", arguments: scripts.keys.sorted())
    func reading(_ name: String) throws {
        try Binary.withDirectory { directory in
            try Data(Self.scripts[name] ?? []).write(to: URL(fileURLWithPath: directory + "/s.lua"))
            try Sample.compare(["s.lua", "x"], directory: directory)
        }
    }

    @Test("runs binary chunks, also behind a shebang")
    func binary() throws {
        try Sample.withFiles { directory in
            try Sample.write(
                "local b = string.dump(loadfile'a.lua') local f = io.open('b.luac', 'wb') f:write(b) f:close()"
                    + " f = io.open('s.luac', 'wb') f:write('#!x\\n', b) f:close()",
                to: "dump.lua", in: directory)
            #expect(try Binary.run(["dump.lua"], directory: directory).status == 0)
            try Sample.compare(["b.luac", "x"], directory: directory)
            try Sample.compare(["s.luac", "x"], directory: directory)
        }
    }

    @Test(
        "a script that cannot be read gives lua's text and status 66",
        arguments: ["missing.lua", ".", "", "/dev/null/x", "secret.lua"])
    func unreadable(_ name: String) throws {
        guard let lua = Binary.lua else { return }
        try Sample.withFiles { directory in
            if name == "secret.lua" {
                try Sample.write("print(1)", to: name, in: directory)
                chmod("\(directory)/\(name)", 0)
                // The superuser can read every file.
                if getuid() == 0 { return }
            }
            let result = try Binary.run([name], directory: directory)
            #expect(result.status == 66)
            let expected = try Binary.run([name], directory: directory, program: lua)
            #expect(result.errors == expected.errors)
        }
    }

    @Test("names, arguments and environment keep bytes that are not text")
    func bytes() throws {
        guard let lua = Binary.lua else { return }
        try Binary.withDirectory { directory in
            let name: [UInt8] = [0xFF, 0xFE] + Array(".lua".utf8)
            let script = """
                local function show(s) print(s:byte(1, -1)) end
                show(arg[0]) show(...) show(os.getenv "X") show(debug.getinfo(1, "S").source)
                error("\\xE9")
                """
            let write =
                Array("local f = io.open('".utf8) + name + Array("', 'w') f:write([==[".utf8) + Array(script.utf8)
                + Array("]==]) f:close()".utf8)
            #expect(try Binary.run(bytes: [Array("-e".utf8), write], directory: directory).status == 0)
            // The bytes include a valid code point from the range in which the program stores bytes that are not
            // UTF-8.
            let argument: [UInt8] = [0x80, 0xC3, 0xFF, 0xF4, 0x8F, 0xBE, 0x80, 0xF4, 0x8F, 0xBF, 0xBF, 0xF4]
            let environment = [Array("X=".utf8) + [0xED, 0xA0, 0x80], Array("LUA_INIT=@".utf8) + name]
            let arguments: [[UInt8]] = [name, argument]
            for environment in [environment, [environment[0]]] {
                let expected = try Binary.run(
                    bytes: arguments, environment: environment, directory: directory, program: lua)
                let result = try Binary.run(bytes: arguments, environment: environment, directory: directory)
                #expect(result.outputBytes == expected.outputBytes)
                #expect(result.errorBytes == expected.errorBytes)
                #expect(result.status == 1)
            }
        }
    }

    @Test("options keep bytes that are not text", arguments: ["-", "-l", "-e"])
    func optionBytes(_ option: String) throws {
        guard let lua = Binary.lua else { return }
        let arguments: [[UInt8]] = [Array(option.utf8) + [0xFF]]
        let expected = try Binary.run(bytes: arguments, program: lua)
        let result = try Binary.run(bytes: arguments)
        #expect(result.errorBytes.starts(with: expected.errorBytes) && result.status == expected.status)
    }

    @Test("a script on standard input can read the rest of it, and has its arguments after \"-\"")
    func input() throws {
        for text in ["print(1)\n", "#!x\nprint(2)", "print(...)", "io.write'x'", "error'stdin'", "x x", ""] {
            try Sample.compare(["-", "p"], input: text)
        }
        let result = try Binary.run([], input: "error 'x'")
        // lua exits with 0 when a script that was not named on the command line has failed.
        #expect(result.status == 1 && result.errors.hasPrefix("rlhost: stdin:1: x\nstack traceback:"))
    }

    @Test("\"-\" after \"--\" is a file of that name")
    func dash() throws {
        try Binary.withDirectory { directory in
            try Sample.write("print 'file'", to: "-", in: directory)
            try Sample.compare(["--", "-"], input: "print 'input'", directory: directory)
            try Sample.compare(["-"], input: "print 'input'", directory: directory)
        }
    }
}
