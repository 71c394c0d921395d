import Foundation
import Glibc
import TestSupport
import Testing

/// `rlhost test --watch`, and the signals and keys of users who wait for a run.
@Suite(.timed) struct TestRunnerWatchTests {
    private static let head = "local t, rl = require 'runloop.test', require 'runloop' "

    private func write(_ text: String, _ path: String) throws {
        try text.write(toFile: path, atomically: false, encoding: .utf8)
    }

    @Test("files of a new directory are found, and a run ends when a file changes during it") func whatIsInA() throws {
        try Binary.withDirectory { directory in
            try write(Self.head + "t.it('one', print)", directory + "/a_test.lua")
            let process = try Binary.Process(["test", "--watch"], directory: directory)
            #expect(process.waitForOutput("waiting for changes"))
            try FileManager.default.createDirectory(
                atPath: directory + "/new/deep", withIntermediateDirectories: true)
            let slow = "t.it('slow', {real_time = true, timeout = 90}, function() print 'begun' rl.sleep(60) end)"
            try write(Self.head + slow, directory + "/new/deep/b_test.lua")
            #expect(process.waitForOutput("begun"))
            try write(Self.head + "t.it('quick', print)", directory + "/new/deep/b_test.lua")
            #expect(process.waitForOutput("given up") && process.waitForOutput("ok    quick"))
            process.signal(SIGINT)
            #expect(process.finish().status == 130)
        }
    }

    private func all(_ session: PromptSession) -> String { session.text.joined(separator: "\n") }

    @Test("keys choose the tests to run") func keysChooseWhatRuns() throws {
        let session = try PromptSession(
            ["test", "--watch"],
            files: ["a_test.lua": Self.head + "t.it('good', print) t.it('bad', function() t.equal(1, 2) end)"])
        try session.until("a run") { all($0).contains("waiting for changes") }
        session.forget()
        try session.type("f")
        try session.until("those that failed") { all($0).contains("0 passed, 1 failed") && all($0).contains("waiting") }
        session.forget()
        try session.type("pgoox\u{7F}d\r")
        try session.until("those with a name") { all($0).contains("1 passed (") && all($0).contains("waiting") }
        session.forget()
        try session.type("a")
        try session.until("all") { all($0).contains("1 passed, 1 failed") && all($0).contains("waiting") }
        try session.type("h")
        try session.until("help") { all($0).contains("q      quit") }
        try session.type("q")
        #expect(try session.finish() == 0)
    }

    @Test("Control-Backslash reports the running test, and so does Control-C") func controlBackslashTellsWhat() throws {
        try Binary.withDirectory { directory in
            try write(
                Self.head + "t.describe('g', function() t.it('long', {timeout = 90, real_time = true}, function() "
                    + "print 'begun' rl.sleep(60) end) end)", directory + "/a_test.lua")
            let process = try Binary.Process(["test", "--report", "tap=out.tap"], directory: directory)
            #expect(process.waitForOutput("begun"))
            process.signal(SIGQUIT)
            #expect(process.waitForErrors("what runs now:\na_test.lua: g › long (for "))
            process.signal(SIGINT)
            let end = process.finish()
            #expect(end.output.contains("interrupted by SIGINT\n  while a_test.lua: g › long (for "), "\(end.output)")
            let tap = try String(contentsOfFile: directory + "/out.tap", encoding: .utf8)
            #expect(
                tap.contains("\nBail out! interrupted by SIGINT while a_test.lua: g › long")
                    && tap.hasSuffix("\n1..0\n"))
        }
    }
}
