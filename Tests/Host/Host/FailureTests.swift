import Foundation
import TestSupport
import Testing

@testable import LuaRunLoops

/// Unhandled errors keep their details until they become text.
@Suite(.timed) struct FailureTests {
    @Test("a failure keeps its text") func aFailureIsThe() {
        var failure = Failure("a.lua:1: no", frames: ["[C]: in function 'error'", "a.lua:1: in main chunk"])
        #expect(failure.text == "a.lua:1: no\nstack traceback:\n\t[C]: in function 'error'\n\ta.lua:1: in main chunk")
        failure.subject = .init(kind: "timer", name: "poll", site: "a.lua:1")
        failure.thread = "worker"
        #expect(
            failure.text
                == failure.traceback + "\nin timer \"poll\" made at a.lua:1\nin thread \"worker\"")
        failure.frames = nil
        #expect(failure.traceback == "a.lua:1: no")
    }

    @Test("an error with the text of an interruption is reported, and the entry continues") func anErrorThatOnly()
        throws
    {
        let entry =
            "rl.after(0, function() error('the job was interrupted!', 0) end) rl.run{timeout=0.1} print 'goes on'\n"
        let run = try Binary.run(["-i"], input: entry)
        #expect(run.output.contains("goes on"))
        #expect(run.errors.contains("the job was interrupted!\nstack traceback:"))
        #expect(run.errors.contains("in timer made at stdin:1"))
    }

    @Test("an error with the text of an interruption is also reported while the process ends") func anErrorInSuch()
        throws
    {
        let process = try Binary.Process([
            "-e",
            """
            io.stdout:setvbuf 'no'
            local source = rl.observer { activities = 'exit', callback = function() \
            error('this was not interrupted!', 0) end }
            rl.current():add(source)
            rl.every(60, print)
            rl.after(0, function() print 'ready' end)
            """,
        ])
        #expect(process.waitForOutput("ready"))
        process.signal(SIGTERM)
        let result = process.finish()
        #expect(result.errors.contains("this was not interrupted!"))
        #expect(result.status == 143)
    }

    @Test(
        "callbacks nested until the stack is full give an error that the handler gets",
        arguments: [
            """
            local function nest()
              local timer = rl.timer { interval = 100, callback = nest }
              rl.current():add(timer)
              timer:fire()
            end
            rl.after(0, nest)
            """,
            """
            local function add()
              rl.current():add(rl.source { perform = function() end, schedule = add })
            end
            rl.after(0, add)
            """,
        ])
    func callbacksNestedUntilTheStackIsFull(script: String) throws {
        let run = try Binary.run([
            "-e",
            """
            rl.on_error(function(e) print((tostring(e):gsub("^.*C stack", "C stack"))) end)
            \(script)
            rl.after(0.05, function() print 'others alive' os.exit(0) end)
            """,
        ])
        #expect(run.output == "C stack overflow\nothers alive\n" && run.status == 0, "\(run)")
    }

    /// Tries each limit from the least memory with which a process starts to an amount that suffices, so that each
    /// allocation is the first failing one in some run.
    @Test(
        "a process without memory at its start reports that",
        .disabled(if: Binary.isUnderThreadSanitizer || Binary.isUnderAddressSanitizer))
    func aProcessThatHasNoMemoryTo() throws {
        let run = try Binary.shell(
            """
            enough=4000
            until (ulimit -v $enough; "$RLHOST" -e 'x = 1') 2> /dev/null || [ $enough -gt 400000 ]; do \
            enough=$((enough + 400)); done
            least=$((enough - 1600))
            while [ $least -lt $enough ]; do
              (ulimit -v $least; exec "$RLHOST" -e 'x = 1') 2> errors; status=$?
              # Killed by the kernel, or refused by the loader, before the first line of ours.
              if [ $status -gt 128 ] && [ $status -ne 139 ] && ! grep -q . errors; then echo "$least: $status"; fi
              least=$((least + 20))
            done
            """, directory: NSTemporaryDirectory(), timeout: 120)
        #expect(run.output == "" && run.status == 0, "\(run)")
    }

    @Test("an interruption in a coroutine of the script is recognized") func anInterruptionInACoroutineOfThe() throws {
        let process = try Binary.Process([
            "-e",
            """
            io.stdout:setvbuf 'no'
            rl.after(0, function()
              coroutine.wrap(function() print 'ready' while true do end end)()
            end)
            """,
        ])
        #expect(process.waitForOutput("ready"))
        process.signal(SIGTERM)
        let result = process.finish()
        // The process ends as requested, which is not reported.
        #expect(result.errors == "")
        #expect(result.status == 143)
    }

    @Test("an assertion that fails in a callback is reported as an assertion in TAP") func anAssertionInA() throws {
        let body = "t.it('x', function() rl.after(0.1, function() t.equal(1, 2) end) rl.sleep(1) end)"
        let run = try TestRunnerFixture.run(["x_test.lua": body], ["--format", "tap"])
        #expect(run.output.contains("kind: assertion"))
        #expect(run.output.contains("in timer made at x_test.lua:1"))
    }

    @Test("any other error in a callback is reported as an error of the callback") func anyOtherErrorIn() throws {
        let body = "t.it('x', function() rl.after(0.1, function() error 'no' end) rl.sleep(1) end)"
        let run = try TestRunnerFixture.run(["x_test.lua": body], ["--format", "tap"])
        #expect(run.output.contains("kind: callback"))
    }

    @Test("an error in a callback of a thread names both") func anErrorInA() throws {
        let body = """
            t.it('x', function()
              rl.thread { name = 'worker', function()
                local rl = require 'runloop'
                rl.after(0.1, function() error 'no' end)
                rl.run()
              end }
              rl.sleep(1)
            end)
            """
        let run = try TestRunnerFixture.run(["x_test.lua": body])
        #expect(run.output.contains("x_test.lua:4: no\n   in timer made at x_test.lua:4, in thread \"worker\"\n"))
    }

    @Test("a test file's name need not be UTF-8") func aTestFileS() throws {
        let run = try Binary.withDirectory { directory in
            try Binary.shell(
                """
                f=$(printf '\\377_test.lua') && echo "require 'runloop.test'.it('a', print)" > "$f"
                "$RLHOST" test && "$RLHOST" test "$f"
                """, directory: directory)
        }
        #expect(run.status == 0, "\(run.output)\(run.errors)")
        #expect(run.output.components(separatedBy: "1 passed").count == 3)
    }

    @Test("LUA_INIT keeps bytes that are not UTF-8, also in tests", arguments: ["LUA_INIT", "LUA_INIT_5_4"])
    func testsGetItsBytes(
        _ variable: String
    )
        throws
    {
        let run = try Binary.withDirectory { directory in
            try Binary.shell(
                """
                echo "require 'runloop.test'.it('a', function() assert(#X == 1) end)" > x_test.lua
                env "\(variable)=X='$(printf '\\377')'" "$RLHOST" test && echo 'Y = "\\377"' > init.lua
                env "\(variable)=@init.lua" "$RLHOST" -e 'assert(#Y == 1)'
                env "\(variable)=error 'no'" "$RLHOST" test
                """, directory: directory)
        }
        #expect(run.output.contains("1 passed"), "\(run.output)\(run.errors)")
        #expect(run.output.contains("\(variable):1: no"), "\(run.output)\(run.errors)")
    }
}
