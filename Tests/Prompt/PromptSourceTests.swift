import Foundation
import TestSupport
import Testing

/// Sources at the prompt: showing them, loading them again, and the parameters of a call while it is typed.
@Suite("The prompt and sources", .timed)
struct PromptSourceTests {
    private static let module = """
        local M, count = { list = {} }, 0
        local function helper(n) return "v1 " .. n end
        -- Says hello.
        function M.hi(name)
          count = count + 1
          return helper(name) .. " " .. count
        end
        M.limit = 5
        return M
        """

    @Test("two question marks show a function's source")
    func source() throws {
        let session = try PromptSession(files: ["mod.lua": Self.module])
        try session.untilPrompt()
        try session.enter("function foo(a, b)\nreturn a end foo??", showing: "")
        try session.enter("function foo(a, b) return a end")
        try session.enter("foo??", showing: "function foo(a, b) return a end")
        try session.enter("mod = require 'mod'")
        try session.enter("mod.hi ??", showing: "  return helper(name) .. \" \" .. count")
        #expect(session.text.contains("-- ./mod.lua:4") && !session.text.contains("M.limit = 5"))
        try session.enter("??mod.hi", showing: "function M.hi(name)")
        try session.enter("print??", showing: "print: it is a function of C: there is no source here")
        try session.enter("nothing??", showing: "nothing is nil")
        try session.enter("mod??", showing: "mod is a table: only functions have a source")
        try session.enter("rl.sleep?", showing: "rl.sleep(seconds)")
    }

    @Test("a module is loaded again with its state, or is left unchanged after an error")
    func reload() throws {
        let session = try PromptSession(files: ["mod.lua": Self.module])
        let path = session.folder.url.appending(path: "mod.lua")
        try session.untilPrompt()
        try session.enter("mod = require 'mod' hi = mod.hi mod.list[1] = 'kept'")
        try session.enter("mod.hi 'x'", showing: "\"v1 x 1\"")
        let changed = Self.module.replacing("v1", with: "v2").replacing("limit = 5", with: "limit = 6")
            .replacing("return M", with: "function M.total() return count end return M")
        try changed.write(to: path, atomically: true, encoding: .utf8)
        try session.enter(".reload mod", showing: "mod is loaded again from ./mod.lua: 1 function replaced, 1 new;")
        try session.enter("mod.hi 'x'", showing: "\"v2 x 2\"")
        // All functions that shared a variable, new and old ones, still share it.
        try session.enter("hi 'x'", showing: "\"v1 x 3\"")
        try session.enter("mod.total(), mod.list[1], mod.limit", showing: "\"kept\"")
        try "return {".write(to: path, atomically: true, encoding: .utf8)
        try session.enter(".reload mod", showing: "; nothing has changed")
        try "error 'no'".write(to: path, atomically: true, encoding: .utf8)
        try session.enter(".reload mod", showing: "mod.lua:1: no; nothing has changed")
        try session.enter("mod.hi 'x'", showing: "\"v2 x 4\"")
        try session.enter(".reload nope", showing: ".reload: no module 'nope' is loaded")
        try session.enter(".reload", showing: ".reload: the name of a module is expected")
    }

    @Test("the parameters of a call are shown while it is typed, in colour")
    func hints() throws {
        let session = try PromptSession(environment: ["NO_COLOR": ""])
        try session.untilPrompt()
        try session.enter("function foo(first, second, ...) end")
        for (typed, shown) in [
            ("rl.after(", "> rl.after(|seconds, fn, ...)"), ("rl.after(1, ", "> rl.after(1, |fn, ...)"),
            ("foo(", "> foo(|first, second, ...)"), ("foo(1,", "> foo(1,|second, ...)"),
            ("('x'):rep(", "> ('x'):rep(|s, n, sep)"), ("rl.thread { name = 'x', ", "> rl.thread { name = 'x', |"),
            ("nothing(", "> nothing(|"), ("foo(1)", "> foo(1)|"),
        ] {
            try session.type(typed)
            try session.until(shown) { ($0.text.last ?? "").hasPrefix(shown) }
            try session.type("\u{03}")
            try session.untilPrompt()
        }
    }

    @Test("long values go to the pager, and the error for an unknown field lists the known ones")
    func pager() throws {
        let session = try PromptSession(environment: ["PAGER": "sed s/^/paged:/"])
        try session.untilPrompt()
        try session.enter(".page { 1, 2, name = 'x' }", showing: "paged:")
        try session.enter("1 + 1", showing: "2")
        try session.enter(".page", showing: ".page: an expression is expected")
        try session.enter(
            "rl.timer { fn = print }", showing: "unknown field 'fn' (there are: callback, delay, fire_date,")
    }
}
