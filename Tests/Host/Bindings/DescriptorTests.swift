import Foundation
import TestSupport
import Testing

/// Descriptors that end, run out, or are closed, tested with the built program.
@Suite(.timed) struct DescriptorTests {
    @Test("a loop does not spin at the end of pipes and of /dev/null") func theEndsOfPipesSocketsAndTerminalsDoNotSpin()
        throws
    {
        let script = """
            local rl = require "runloop"
            local files = { assert(io.popen "true"), assert(io.popen "echo one"), assert(io.open "/dev/null") }
            local calls = {}
            for i, file in ipairs(files) do
              calls[i] = 0
              rl.on_readable(file, function(port)
                calls[i] = calls[i] + 1
                if file:read(1) == nil and i == 3 then port:invalidate() end
              end)
            end
            rl.sleep(0.3)
            for i = 1, 3 do io.write(calls[i] > 0 and calls[i] < 10 and "few " or calls[i] .. " ") end
            print(rl.current():stats().passes < 60)
            os.exit(0)
            """
        let result = try Binary.run(["-e", script])
        #expect(result.output == "few few few true\n", "\(result.errors)")
    }

    @Test("a process without free descriptors reports that and continues")
    func aProcessOutOfDescriptorsSaysSoAndGoesOn() throws {
        let script = """
            local rl = require "runloop"
            local l, files = rl.current(), {}
            repeat local file = io.open "/dev/null" files[#files + 1] = file until not file
            local fired = 0
            for _, mode in ipairs { "default", "a", "b" } do
              l:add(rl.timer { delay = 0.001, callback = function() fired = fired + 1 end }, mode)
              l:run { mode = mode }
            end
            local got
            local port = rl.fd_port { fd = files[1], callback = function(port, events) got = events port:invalidate() \
            end }
            l:add(port, "c")
            local result = l:run { mode = "c", timeout = 1 }
            print(fired, got, result)
            """
        let result = try Binary.run(
            ["-c", "ulimit -n 40; exec \"$0\" \"$@\"", Binary.path, "-e", script], program: "/bin/sh", name: "sh")
        #expect(result.output == "3\te\tfinished\n", "\(result.errors)")
        #expect(result.status == 0)
    }

    @Test("a thread that cannot be started returns an error, and nothing is lost")
    func aThreadThatCannotBeHadIsRefusedAndNothingIsLost() throws {
        let script = """
            local rl = require "runloop"
            local files = {}
            repeat local file = io.open "/dev/null" files[#files + 1] = file until not file
            local refused = {}
            for free = 0, 3 do
              for _ = 1, free do table.remove(files):close() end
              local thread, message, code = rl.thread(function(x) rl.sleep(0.001) return x end, free)
              refused[#refused + 1] = thread and select(2, thread:join()) or message .. " " .. code
              collectgarbage() collectgarbage()
              repeat local file = io.open "/dev/null" files[#files + 1] = file until not file
            end
            print(table.concat(refused, ", "))
            for _, file in ipairs(files) do file:close() end
            local threads = {}
            for i = 1, 200 do                        -- a thread that is over holds no descriptors
              threads[i] = assert(rl.thread(function() end))
              threads[i]:join()
            end
            print(#threads, rl.thread(rl.now):name())
            """
        let result = try Binary.run(
            ["-c", "ulimit -n 40; exec \"$0\" \"$@\"", Binary.path, "-e", script], program: "/bin/sh", name: "sh")
        let refusal = "EMFILE: too many open files EMFILE"
        #expect(result.output == "\(refusal), \(refusal), 2, 3\n200\tthread 203\n", "\(result)")
        #expect(result.status == 0)
    }

    @Test("a process without descriptors for its loop reports that") func aProcessWithoutDescriptorsForItsLoopSaysSo()
        throws
    {
        let result = try Binary.run(
            ["-c", "ulimit -n 4; exec \"$0\" \"$@\"", Binary.path, "-e", "print(1)"], program: "/bin/sh", name: "sh")
        #expect(result.errors == "rlhost: cannot create the run loop: EMFILE: too many open files\n")
        #expect(result.status == 1)
    }

    @Test(
        "a standard descriptor that is closed stays closed: no other file gets its number",
        arguments: ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    func closedStandardDescriptors(_ closed: String) throws {
        let text = """
            local rl = require "runloop"
            local log = assert(io.open(arg[1], "w"))
            local function why(...) return (select(2, ...)) end
            io.write "12345678"
            log:write(tostring(why(io.stdout:flush())), ", ", tostring(why(io.stderr:write "x")), ", ", \
            tostring(why(io.read(1))))
            rl.after(0.01, function() print "12345678" log:write ", fired" log:close() end)
            """
        try Binary.withDirectory { directory in
            let script = directory + "/script.lua"
            try text.write(toFile: script, atomically: true, encoding: .utf8)
            let result = try Binary.shell("exec \"$RLHOST\" script.lua log \(closed)", directory: directory)
            // If standard output or standard error is closed, output is lost.
            #expect(result.status == (closed.contains(">") ? 1 : 0), "\(result)")
            let refusal = "Bad file descriptor"
            let expected = [">&-", "2>&-", "<&-"].map {
                closed.split(separator: " ").contains(Substring($0)) ? refusal : "nil"
            }
            #expect(
                try String(contentsOfFile: directory + "/log", encoding: .utf8) == expected.joined(separator: ", ")
                    + ", fired")
        }
    }

    @Test("a value that is not a descriptor is refused with its reason")
    func whatIsNoDescriptorIsRefusedWithItsReason() throws {
        let script = """
            local rl = require "runloop"
            print(rl.fd_port { fd = 999, callback = print })
            print(rl.on_readable({ fd = function() return 999 end }, print))
            local file = io.tmpfile() file:close()
            print(select(2, pcall(rl.on_readable, file, print)))
            print(select(2, pcall(rl.on_readable, 1e19, print)))
            """
        let result = try Binary.run(["-e", script])
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == 4, "\(result.errors)")
        #expect(lines.prefix(2).allSatisfy { $0 == "nil\tEBADF: bad file descriptor\tEBADF" })
        #expect(
            lines.dropFirst(2).allSatisfy { $0.contains("rl.on_readable: argument #1 must be") }, "\(result.output)")
    }

    @Test("closing a descriptor in its own callback causes one error, and no hang")
    func aDescriptorClosedInItsOwnCallbackIsAnErrorOnceNotAHang() throws {
        let script = """
            local rl = require "runloop"
            local file, seen = assert(io.popen "echo hello"), {}
            rl.on_readable(file, function(port, events)
              seen[#seen + 1] = events
              if #seen == 1 then file:close() else port:invalidate() end
            end)
            rl.run { timeout = 5 }
            print(#seen, seen[2])
            """
        let result = try Binary.run(["-e", script])
        #expect(result.output == "2\te\n", "\(result.errors)")
        #expect(result.seconds < 4)
    }

    @Test("a loop whose own descriptors are closed ends with a reason")
    func aLoopWhoseOwnDescriptorsAreClosedEndsWithAReason() throws {
        let script = """
            local rl, uv = require "runloop", require "luv"
            rl.after(0.1, function() print "not reached" end)
            for fd = 3, 255 do uv.fs_close(fd) end
            """
        let result = try Binary.run(["-e", script], timeout: 20)
        #expect(result.status == 1 && result.output == "", "\(result)")
        #expect(result.errors.contains("its own descriptor is gone"))
    }

    @Test("interrupted system calls change nothing") func interruptedSystemCallsChangeNothing() throws {
        let strace = "/usr/bin/strace"
        guard FileManager.default.isExecutableFile(atPath: strace) else { return }
        let script = """
            local rl = require "runloop"
            local file, log = assert(io.popen "sleep 0.05; echo hello"), {}
            rl.on_readable(file, function(port) log[#log + 1] = file:read "l" port:invalidate() end)
            local s = rl.source { perform = function(s) log[#log + 1] = "performed" s:invalidate() end }
            rl.current():add(s)
            rl.after(0.1, function() s:signal() s:wake_loops() end)
            rl.run()
            table.sort(log)
            print(table.concat(log, " "))
            """
        let result = try Binary.run(
            [
                "-f", "-o", "/dev/null", "-e", "inject=epoll_pwait2,epoll_wait,poll:error=EINTR:when=1+2", Binary.path,
                "-e", script,
            ], program: strace, name: "strace")
        // On systems that do not allow tracing, there is nothing to check.
        guard result.status == 0 || !result.errors.contains("ptrace") else { return }
        #expect(result.output == "hello performed\n", "\(result.errors)")
    }

    @Test("an idle loop sleeps through to its only timer") func anIdleLoopSleepsThroughToItsOnlyTimer() throws {
        let strace = "/usr/bin/strace"
        guard FileManager.default.isExecutableFile(atPath: strace) else { return }
        let result = try Binary.run(
            [
                "-f", "-e", "trace=epoll_pwait2,epoll_wait,poll,futex", Binary.path, "-e",
                "io.stderr:write 'begin\\n' rl.after(0.5, function() io.stderr:write 'end\\n' end)",
            ], program: strace, name: "strace")
        guard result.status == 0 || !result.errors.contains("ptrace") else { return }
        let between = result.errors.components(separatedBy: "begin").last?.components(separatedBy: "end").first ?? ""
        let calls = between.split(separator: "\n").filter { $0.contains("(") }
        #expect(calls.count == 1, "\(between)")
    }
}
