import TestSupport
import Testing

@Suite("Command line: plain Lua", .timed)
struct CommandLineCorpusTests {
    @Test(
        "a program that does not use run loops gives the same output as under lua",
        arguments: ["coroutines.lua", "errors.lua", "language.lua", "library.lua"])
    func corpus(_ name: String) throws {
        try Sample.compare(
            [name, "x", "y"], input: "first line\n12 rest\nall\nthe rest",
            directory: Binary.repository + "/Tests/Lua/Corpus")
    }

    /// Texts of Lua whose errors are not caught, of every kind.
    static let failures: [String] = [
        "error('x')", "error('x', 0)", "error('x', 2)", "error()", "error(nil)", "error(42)", "error(true)",
        "error(print)", "error(setmetatable({}, {__tostring = function() return 'custom' end}))",
        "error('two\\nlines')", "local t; t.x = 1", "return 1 + {}", "('x'):bad()",
        "local function f() return f() + 1 end f()", "string.rep()", "assert(false)", "assert(nil, 'm')",
        "coroutine.wrap(function() error('inside') end)()", "coroutine.yield(1)", "require'no.such'",
        "table.sort({3, 2, 1}, function() error('cmp') end)", "io.write('no newline') error('x')",
        "local x <close> = setmetatable({}, {__close = function(_, e) print('closed', e) end}) error'boom'",
        "local x <close> = setmetatable({}, {__close = function(_, e) error('inclose') end}) error'boom'",
        "local function deep(n) if n == 0 then error('deep') end deep(n - 1) return 1 end deep(40)",
        "setmetatable({}, {__gc = function() print'collected' end}) error'x'", "goto nope", "x = = 2", "os.exit('x')",
        "setmetatable({}, {__gc = function() error'in gc' end})", "warn('@on') setmetatable({}, {__gc = error})",
    ]

    @Test(
        "an uncaught error that is a table is shown with its fields",
        arguments: [
            ("error({})", "rlhost: {}\n"), ("error({ code = 7 })", "rlhost: { code = 7 }\n"),
            ("error(setmetatable({}, { __tostring = function() return 'custom' end }))", "rlhost: custom\n"),
        ])
    func table(_ text: String, _ first: String) throws {
        let result = try Binary.run(["-e", text])
        #expect(result.errors.hasPrefix(first) && result.status == 1, "\(result.errors)")
    }

    @Test("an uncaught error is printed as lua prints it", arguments: failures)
    func failure(_ text: String) throws {
        try Sample.compare(["-e", text])
        try Sample.compare(["-"], input: text)
    }
}
