import Foundation
import TestSupport
import Testing

/// The prompt knows the modules as well as the library itself.
@Suite("The prompt and the modules", .timed)
struct PromptModuleTests {
    /// The answers of `-i` to lines of input, with a prompt before each.
    private func answer(_ input: String) throws -> String {
        let run = try Binary.run(["-i"], input: input)
        #expect(run.errors.isEmpty, "\(run.errors)")
        return run.output
    }

    @Test("help finds functions and methods of modules, by name and by value, with the fields of their options")
    func functions() throws {
        for question in [
            ".help net.connect", ".help runloop.net.connect", "help(net.connect)", "net.connect?", "?net.connect",
            "help 'net.connect'", ".help mine", "mine?",
        ] {
            let text = try answer("net = require 'runloop.net' mine = net.connect\n\(question)\n")
            #expect(text.contains("> net.connect(where, options)\n\nConnects. Waits."), "\(question): \(text)")
            let options = "net.ConnectOptions:\n  timeout      number, optional: for everything"
            #expect(text.contains(options), "\(question)")
        }
        for question in [
            "a:read?", "a.read?", "help(a.read)", ".help a.read", ".help stream:read", "help 'net.stream.read'",
        ] {
            let text = try answer("a, b = require 'runloop.net'.pair()\n\(question)\n")
            #expect(
                text.contains("> stream:read(max, options)\n\nReads the bytes that have arrived:"),
                "\(question): \(text)")
        }
    }

    @Test(
        "every module's functions, objects and their methods have help, and are shown by their names",
        arguments: [
            ("x = require 'runloop.process'", "x.run", "process.run(options)"),
            ("x = require 'runloop.process'.start { 'true' }", "x", "process.Program"),
            ("x = require 'runloop.process'.start { 'true' }", "x.wait", "program:wait(timeout)"),
            ("x = require 'runloop.process'.on_signal('USR1', print)", "x", "process.Signal"),
            ("x = require 'runloop.fs'", "x.read", "fs.read(path, max)"),
            ("x = require 'runloop.fs'.watch('.', print)", "x", "fs.Watcher"),
            ("x = require 'runloop.fs'.watch('.', print)", "x.next", "watcher:next(timeout)"),
            ("x = require 'runloop.http'", "x.get", "http.get(url, options)"),
            ("x = require 'runloop.http'.routes()", "x", "http.Routes"),
            ("x = require 'runloop.http'.serve('memory', print)", "x.stop", "server:stop(seconds)"),
            ("x = require 'runloop.json'", "x.encode", "json.encode(value, options)"),
            ("x = require 'runloop.log'", "x.info", "log.info(message, fields)"),
            ("x = require 'runloop.log'.open()", "x.reopen", "logger:reopen()"),
            ("x = require 'runloop.terminal'", "x.style", "terminal.style(styles, text)"),
            ("x = require 'runloop.terminal'.progress {}", "x.add", "progress:add(more)"),
            ("x = require 'runloop.arguments'", "x.parse", "arguments.parse(specification, words)"),
            ("x = require 'runloop.schedule'", "x.cron", "schedule.cron(expression, fn, options)"),
            ("x = require 'runloop.schedule'.daily('2:30', print)", "x", "schedule.Job"),
            ("x = require 'runloop.net'.pair()", "x", "net.Stream"),
            ("x = require 'runloop.net'.serve(0, print)", "x", "net.Listener"),
            ("x = require 'runloop.net'.datagram {}", "x", "net.Datagram"),
            ("x = rl.channel()", "x", "Channel"),
            ("x = require 'runloop.net'", "x", "runloop.net"),
        ])
    func everything(setUp: String, name: String, title: String) throws {
        let text = try answer("\(setUp)\nhelp(\(name))\n\(name)?\n\(name)\nos.exit(0)\n")
        #expect(text.components(separatedBy: "> \(title)\n").count == 3, "\(text)")
        if title.contains("(") { #expect(text.contains("> function \(title) built in\n"), "\(text)") }
    }

    @Test(
        "help lists ambiguous names, and the contents of classes and modules, also of runloop.test"
    )
    func lists() throws {
        let text = try answer(
            """
            .help read
            .help net.Stream
            .help net
            .help t.equal
            .help test.Process
            .help os.time
            .help net.nothing

            """)
        #expect(
            text.contains("fs.read(path, max)  Reads a whole file.")
                && text.contains("stream:read(max, options)  Reads the bytes"))
        #expect(
            text.contains("> net.Stream\n\nA two-way stream of bytes.") && text.contains("\nstream:write(...)  Writes"))
        #expect(
            text.contains("> runloop.net\n\nnet.connect(where, options)  Connects.")
                && text.contains("\nnet.Listener\n"))
        #expect(text.contains("> t.equal(actual, expected, note)"))
        #expect(text.contains("> test.Process\n\nA program that a test has started."))
        #expect(text.contains("> os.time(table)\n"))
        #expect(text.contains("there is no 'net.nothing' in the reference"))
    }

    @Test("two question marks show the Lua source of a module's function, or report that it has none")
    func sources() throws {
        let text = try answer(
            """
            net = require 'runloop.net'
            net.connect??
            x = require 'runloop.fs'.watch('.', print)
            x.next??
            rl.channel().send
            rl.debounce??
            require 'runloop.json'.encode
            json = require 'runloop.json'
            json.encode??
            os.exit(0)

            """)
        #expect(text.contains(/> -- runloop\.net:\d+\nfunction net\.connect\(where, options\)\n(?s:.*)\nend\n>/))
        #expect(text.contains(/> -- runloop\.fs\.watch:\d+\nfunction Watcher:next\(timeout\)\n/))
        #expect(text.contains("> function channel:send(...) built in"))
        #expect(text.contains("rl.debounce: it is built in: rl.debounce? says what it does"))
        #expect(text.contains("json.encode: it is a function of C"))
    }

    @Test(
        "Tab completes options of modules' calls, tables in them, values, results and paths; hints show the rest")
    func completion() throws {
        let session = try PromptSession(columns: 130, environment: ["NO_COLOR": ""], files: ["some_file.txt": ""])
        try session.untilPrompt()
        for name in ["net", "fs", "http", "json", "log", "schedule", "process", "terminal", "arguments"] {
            try session.enter("\(name) = require 'runloop.\(name)'")
        }
        for (typed, completed) in [
            ("net.connect('x', { time", "net.connect('x', { timeout = "),
            ("net.connect('x', { tls = { min", "net.connect('x', { tls = { min_version = "),
            ("net.connect { po", "net.connect { port = "), ("net.connect('x'):read_l", "net.connect('x'):read_line"),
            ("net.listener { max_c", "net.listener { max_connections = "),
            ("process.start { 'x', dies", "process.start { 'x', dies_with_host = "),
            ("process.start { 'x', errors = 'outp", "process.start { 'x', errors = 'output"),
            ("process.run { 'x' }.out", "process.run { 'x' }.output"),
            ("fs.watch('.', { rec", "fs.watch('.', { recursive = "),
            ("fs.write('a', 'b', { app", "fs.write('a', 'b', { append = "),
            ("fs.read('some", "fs.read('some_file.txt"), ("http.get('u', { foll", "http.get('u', { follow = "),
            ("http.get('u'):js", "http.get('u'):json"), ("http.get('u').sta", "http.get('u').status"),
            ("json.encode(1, { ind", "json.encode(1, { indent = "),
            ("log.open { level = 'deb", "log.open { level = 'debug"),
            ("schedule.cron('x', print, { mis", "schedule.cron('x', print, { missed = "),
            ("terminal.progress { tot", "terminal.progress { total = "),
            ("arguments.parse { { 'x', def", "arguments.parse { { 'x', default = "),
            ("require 'runloop.sch", "require 'runloop.schedule"), (".help net.conn", ".help net.connect"),
        ] {
            session.forget()
            // The letter shows that Tab has been handled.
            try session.type(typed + "\tX")
            try session.until("'\(completed)X'") { $0.text.last == "> \(completed)X|" }
            try session.type("\u{03}")
            try session.until("an empty line") { $0.isAtPrompt }
        }
        for (typed, shown) in [
            ("net.connect(", "> net.connect(|where, options)"),
            ("fs.write('a', 'b', {", "> fs.write('a', 'b', {|append?, mode?, sync? }"),
        ] {
            try session.type(typed)
            try session.until(shown) { ($0.text.last ?? "").hasPrefix(shown) }
            try session.type("\u{03}")
            try session.untilPrompt()
        }
    }
}
