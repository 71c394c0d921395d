import TestSupport
import Testing

@Suite("Command line: options", .timed)
struct CommandLineOptionTests {
    /// Arguments with which lua5.4 and rlhost do the same, to the byte.
    static let alike: [[String]] = [
        ["a.lua"], ["a.lua", "x", "y"], ["-e", "print('e')"], ["-eprint('e')"], ["-e", "print('e')", "a.lua", "x"],
        ["-e", ""], ["-e", "", "a.lua"], ["-v"], ["-v", "-e", "print(1)"], ["-v", "a.lua"], ["-E", "a.lua"],
        ["-W", "-e", "warn'x'"], ["-e", "warn'x'", "-W", "-e", "warn('y', 'z')"], ["-l", "mod"], ["-lmod"],
        ["-l", "m=mod", "-e", "print(m.x, mod)"], ["-lm=mod", "-e", "print(m.x)"], ["-l", "mod", "-e", "print(mod.x)"],
        ["-l", "nonexistent"], ["-l", "syntax"], ["-l", "fails"], ["-l", "mod", "-l", "mod"], ["-l", "m="],
        ["-l", "=mod"], ["--", "a.lua", "z"], ["--"], ["-", "x", "y"], ["-e", "print(...)", "a.lua", "q"],
        ["-e", "print(#arg, arg[0], arg[1], arg[-1], arg[-2])", "a.lua", "q"], ["-e", "print(#arg, arg[0], arg[1])"],
        ["-e", "arg = nil", "a.lua"], ["-e", "arg = 5", "a.lua"], ["-e", "arg = {[0]='z', 'b', 'c'}", "a.lua", "x"],
        ["-e", "arg[1] = 3 arg[2] = {}", "a.lua", "x", "y"], ["-e", "x = 1", "-e", "print(x)"],
        ["-e", "local y = 1", "-e", "print(y)"], ["-e", "error('a')", "-e", "print'b'"], ["-e", "= 1"], ["-e", "x ="],
        ["-e", "return 1"], ["-e", "#x"], ["a.lua", "-e", "x"], ["a.lua", "--"], ["a.lua", "-"], ["a.lua", ""],
        ["-E", "-W", "-e", "print('e')", "--", "a.lua", "-x"], ["-e", "print('e')", "-"], ["--", "-dash.lua", "1"],
        ["./-dash.lua"], ["sp ace.lua", "a b"], ["-e", "print(_VERSION, package.path, package.cpath)"],
        ["-E", "-e", "print(package.path, package.cpath)"],
    ]

    @Test("handles the arguments as lua does", arguments: alike)
    func likeLua(_ arguments: [String]) throws {
        try Sample.withFiles { directory in
            try Sample.compare(arguments, input: "print('input', ...)", directory: directory)
        }
    }

    @Test(
        "refuses a wrong option as lua does, and lists its own after lua's",
        arguments: [
            ["-e"], ["-e", "-v"], ["-l"], ["-l", "-v"], ["-vv"], ["-ve"], ["-WE"], ["-w"], ["-x"], ["-i2"], ["-cx"],
        ])
    func wrong(_ arguments: [String]) throws {
        guard let lua = Binary.lua else { return }
        let expected = try Binary.run(arguments, program: lua)
        let result = try Binary.run(arguments)
        #expect(result.errors.hasPrefix(expected.errors), "\(result.errors)")
        #expect(result.errors.contains("-p expr"))
        #expect(result.status == 1 && expected.status == 1)
    }

    @Test("an unknown long option gives status 64, with a suggestion")
    func unknownLong() throws {
        let result = try Binary.run(["--versio"])
        #expect(
            result.status == 64 && result.errors == "rlhost: unknown option '--versio' (did you mean '--version'?)\n")
        #expect(try Binary.run(["-p"]).status == 64)
    }

    @Test("-h and --help go to standard output, and nothing is run")
    func help() throws {
        for option in ["-h", "--help"] {
            let result = try Binary.run(["-e", "print('no')", option])
            #expect(result.status == 0 && result.errors.isEmpty)
            #expect(result.output.hasPrefix("usage: rlhost ") && result.output.contains("-p expr"))
        }
    }

    @Test("--version prints the version of rlhost, -v that of Lua")
    func versions() throws {
        let own = try Binary.run(["--version"])
        #expect(own.status == 0 && own.output.hasPrefix("rlhost ") && own.output.contains("Lua 5.4"))
        #expect(try Binary.run(["-v"]).output.hasPrefix("Lua 5.4."))
    }

    @Test(
        "-p prints the values of an expression",
        arguments: [
            ("1 + 1", "2\n"), ("1, nil, 'x'", "1\tnil\tx\n"), ("-1", "-1\n"),
            ("(function(...) return ... end)()", "\n"),
            ("1 -- with a comment", "1\n"), ("rl.now() > 0", "true\n"),
        ])
    func printing(_ expression: String, _ expected: String) throws {
        let result = try Binary.run(["-p", expression])
        #expect(result.output == expected && result.status == 0 && result.errors.isEmpty, "\(result.errors)")
    }

    @Test("-p accepts an expression, not a text that becomes one between parentheses")
    func noExpression() throws {
        let unfinished = try Binary.run(["-p", "1 +"])
        #expect(unfinished.errors == "rlhost: (command line):1: unexpected symbol near <eof>\n", "\(unfinished)")
        #expect(try Binary.run(["-p", "1 -- one"]).output == "1\n")
        let result = try Binary.run(["-p", "1) os.exit(7"])
        #expect(result.status == 1 && result.errors.hasPrefix("rlhost: (command line):1: "))
    }

    @Test("-c compiles the script and the texts, and runs nothing")
    func check() throws {
        try Sample.withFiles { directory in
            let good = try Binary.run(
                ["-c", "-e", "print(1)", "a.lua"], environment: ["LUA_INIT": "print(2)"], directory: directory)
            #expect(good.status == 0 && good.output.isEmpty && good.errors.isEmpty)
            let bad = try Binary.run(["-c", "syntax.lua"], directory: directory)
            #expect(bad.status == 1 && bad.errors.hasPrefix("rlhost: syntax.lua:"))
            #expect(try Binary.run(["-c", "missing.lua"], directory: directory).status == 66)
            #expect(try Binary.run(["-c"], input: "x =", directory: directory).status == 1)
            #expect(try Binary.run(["-c", "-e", "x ="], directory: directory).status == 1)
        }
    }

    @Test("the global rl exists for -e and -p only")
    func globalModule() throws {
        try Sample.withFiles { directory in
            let text = try Binary.run(["-e", "print(type(rl))"], directory: directory)
            let script = try Binary.run(["globals.lua"], directory: directory)
            #expect(text.output == "table\n" && script.output == "nil\n")
        }
    }

    /// Contents of LUA_INIT and its kind.
    static let environments: [[String: String]] = [
        ["LUA_INIT": "print('init', ...)"], ["LUA_INIT": "@mod.lua"], ["LUA_INIT": "@missing.lua"], ["LUA_INIT": "x ="],
        ["LUA_INIT": "error'x'"], ["LUA_INIT": "error()"], ["LUA_INIT": ""], ["LUA_INIT": "@"],
        ["LUA_INIT": "@."], ["LUA_INIT_5_4": "print('5_4')", "LUA_INIT": "print('no')"],
        ["LUA_INIT_5_4": "", "LUA_INIT": "print('no')"], ["LUA_INIT_5_4": "error'x'"], ["LUA_INIT": "os.exit(4)"],
        ["LUA_INIT": "print(arg[0], #arg)"], ["LUA_INIT": "warn('@on') warn'x'"], ["LUA_INIT": "@fails.lua"],
        ["LUA_PATH": "./?.x;;"], ["LUA_PATH_5_4": "p5;;q", "LUA_PATH": "no"], ["LUA_CPATH": ";;"],
        ["LUA_CPATH_5_4": "c5;;", "LUA_CPATH": "x"], ["LUA_PATH": ""], ["LUA_PATH": ";;x"],
    ]

    @Test("handles the environment as lua does, and ignores it with -E", arguments: environments)
    func likeLuaIn(_ environment: [String: String]) throws {
        try Sample.withFiles { directory in
            let paths = "print(package.path, package.cpath)"
            for arguments in [
                ["-e", paths, "a.lua", "x"], ["-E", "-e", paths, "a.lua"], ["-v"], ["-l", "mod"], ["-"],
            ] {
                try Sample.compare(arguments, input: "print'input'", environment: environment, directory: directory)
            }
        }
    }
}
