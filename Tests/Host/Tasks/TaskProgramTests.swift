import TestSupport
import Testing

/// Tasks in a whole program: with real descriptors, exit statuses and the program's stack.
@Suite("Tasks in the program", .timed)
struct TaskProgramTests {
    @Test(
        "A main chunk that nothing can wake ends with status 13, and its place is reported",
        arguments: [
            ("local t t = rl.task(function() rl.sleep(0) rl.task(function() t:await() end):await() end)\nt:await()", 2),
            (
                "local function inner(t)\n  return t:await()\nend\n"
                    + "local t t = rl.task(function() rl.sleep(0) rl.task(function() t:await() end):await() end)\n"
                    + "local x = inner(t) + 1", 2
            ),
            (
                "local t t = rl.task(function() rl.sleep(0) rl.task(function() t:await() end):await() end)\n"
                    + "rl.all_of(t, function() rl.sleep(0) end)", 2
            ),
        ])
    func neverEnding(_ text: String, _ line: Int) throws {
        let result = try Binary.run(["-"], input: "rl = require 'runloop' " + text)
        #expect(result.status == 13)
        #expect(result.errors.hasPrefix("rlhost: the main chunk never ended: nothing is left that could wake it\n"))
        #expect(result.errors.contains("\nit still waits in "))
        #expect(result.errors.contains("\n\tstdin:\(line): in "), "\(result.errors)")
        let sameByOption = try Binary.run(["-e", text])
        #expect(sameByOption.status == 13 && sameByOption.errors.contains("\n\t(command line):\(line): in "))
    }

    @Test("A thread whose function nothing can wake is named, also in the result of join")
    func neverEndingThread() throws {
        let thread = "local t = rl.thread { function() require 'runloop'.condition():wait() end, name = 'sleeper' }\n"
        let first =
            "the thread's function never ended: nothing is left that could wake it\nit still waits in condition:wait"
        let place = "thread \"sleeper\" made at (command line):1"
        let alone = try Binary.run(["-e", thread])
        #expect(alone.status == 1 && alone.errors.hasPrefix("rlhost: \(first)\n"), "\(alone)")
        #expect(alone.errors.hasSuffix("\nin \(place)\n"), "\(alone)")
        let told = try Binary.run(["-e", "rl.on_error(function(e, info) print(info.where) end)" + thread])
        #expect(told.output == place + "\n" && told.errors.isEmpty, "\(told)")
        let joined = try Binary.run(["-e", thread + "print(select(2, pcall(t.join, t)))"])
        #expect(joined.output.contains(first), "\(joined)")
    }

    @Test(
        "Waiting for many tasks, or cancelling many that wait for one, takes linear time",
        arguments: [
            "local all = {} for i = 1, count do all[i] = rl.task(rl.sleep, 0.01) end rl.all_of(all)",
            """
            local one, all = rl.task(rl.sleep, 100), {}
            for i = 1, count do all[i] = rl.task(one.await, one) end
            for i = 1, count do all[i]:cancel() end
            one:cancel()
            """,
        ])
    func crowds(_ body: String) throws {
        // Ten times as many tasks take ten times as long; if each visited all others, they would take a hundred times
        // as long.
        let result = try Binary.run([
            "-l", "rl=runloop", "-e",
            """
            local function cost(count)
              collectgarbage() collectgarbage()
              local began = os.clock()
              \(body)
              return os.clock() - began
            end
            cost(1000)
            local few, many = math.max(cost(3000), cost(3000)), cost(30000)
            print(many < 40 * few or many / few)
            """,
        ])
        #expect(result.output == "true\n", "\(result)")
    }

    @Test(
        "A main chunk that rl.stop cuts off gives status 13 and its place; one that has ended does not"
    )
    func stopped() throws {
        let result = try Binary.run(
            ["-"], input: "local rl = require 'runloop'\nrl.after(0.01, rl.stop)\nrl.sleep(100)\nprint 'never printed'")
        #expect(result.status == 13 && result.output.isEmpty)
        #expect(result.errors.hasPrefix("rlhost: the main chunk never ended: the loop was stopped while it waited\n"))
        #expect(result.errors.contains("it still waits in rl.sleep") && result.errors.contains("\n\tstdin:3: in "))
        for text in [
            "rl.after(0.01, rl.stop) rl.every(1, print)",
            "rl.on_shutdown(print) rl.after(0.01, rl.shutdown) rl.sleep(100)",
            "rl.after(0.01, rl.stop) assert(rl.run { timeout = 100 } == 'stopped')",
        ] {
            let other = try Binary.run(["-"], input: "rl = require 'runloop' \(text)")
            #expect(other.status == 0 && other.errors.isEmpty, "\(text): \(other)")
        }
    }

    @Test("Cancelling many tasks that wait for room in a port takes linear time")
    func leavingSenders() throws {
        let result = try Binary.run([
            "-e",
            """
            rl = require 'runloop'
            local function cost(count)
              local got = {}
              local port = rl.port { modes = "default", capacity = 1, callback = function(_, message) \
            got[#got + 1] = message.data end }
              local tasks = {}
              for i = 1, count do tasks[i] = rl.task(function() return port:send { data = i } end) end
              local began = os.clock()
              for i = 2, count do if i % 100 ~= 0 then tasks[i]:cancel() end end
              local spent = os.clock() - began
              while #got < 1 + count // 100 do rl.sleep(0.001) end
              rl.sleep(0)
              for i = 1, #got do assert(got[i] == (i == 1 and 1 or (i - 1) * 100)) end
              assert(#got == 1 + count // 100)
              port:invalidate()
              return spent
            end
            local few, many = cost(2000), cost(16000)
            print(many < 30 * few + 0.01 or few .. " " .. many)
            """,
        ])
        #expect(result.output == "true\n", "\(result)")
    }

    @Test("A main chunk that rl.stop cuts off gives status 13 also beside other threads")
    func stoppedBesideThreads() throws {
        for helper in [
            "rl.thread(function() require 'runloop'.sleep(100) end)",
            "rl.thread { function() require 'runloop'.sleep(100) end, keeps_alive = false }",
            "rl.task(rl.blocking, function() require 'runloop'.sleep(100) end)",
            "rl.thread(function() end):join()",
        ] {
            let text = "\(helper) rl.after(0.05, rl.stop) rl.sleep(1) print 'slept on'"
            for arguments in [["-"], ["-e", text]] {
                let result = try Binary.run(arguments, input: "rl = require 'runloop' \(text)")
                #expect(result.status == 13 && result.output.isEmpty, "\(helper): \(result)")
                #expect(result.errors.contains(": the loop was stopped while it waited\nit still waits in rl.sleep\n"))
            }
        }
    }

    @Test("A loop that is stopped after the chunk has ended is served until the threads have ended, and no longer")
    func stoppedBeforeThreadsEnd() throws {
        let text = """
            rl = require 'runloop'
            rl.after(0.05, rl.stop)
            rl.every(0.02, function() end)
            rl.thread(function(loop) for _ = 1, 10 do require 'runloop'.sleep(0.02) loop:perform { print, 'served', \
            wait = true } end end, rl.current())
            rl.thread { function() require 'runloop'.sleep(0.1) end }
            """
        let result = try Binary.run(["-"], input: text, timeout: 20)
        #expect(result.status == 0 && result.errors.isEmpty, "\(result)")
        #expect(result.output == String(repeating: "served\n", count: 10))
    }

    @Test("A wait for a descriptor returns its events, that the time is over, or why it cannot be watched")
    func descriptors() throws {
        let result = try Binary.run(
            ["-"],
            input: """
                local rl = require "runloop"
                local late = io.popen "sleep 0.1; echo text; exec sleep 3 2>&-"
                print(rl.wait_readable(late, 0))
                print(rl.wait_readable(late, 10), late:read())
                print(rl.wait_readable(late, 0.02))
                print(rl.wait_readable(late, 0.02))
                local sink <close> = io.popen("exec cat >/dev/null", "w")
                print(rl.wait_writable(sink), rl.wait_writable(sink, 5))
                local ended <close> = io.popen "true"
                print((rl.wait_readable(ended, 10):gsub("r", "")), ended:read())
                local file <close> = io.open "/dev/null"
                print(rl.wait_readable(file))
                print(rl.wait_readable(999))
                print(rl.wait_writable(io.stdout, 0) ~= nil)
                os.exit(0)
                """)
        #expect(
            result.output == """
                nil	timed out
                r	text
                nil	timed out
                nil	timed out
                w	w
                h	nil
                r
                nil	EBADF: bad file descriptor	EBADF
                true

                """)
        #expect(result.status == 0 && result.errors.isEmpty, "\(result)")
    }

    @Test("Several tasks may wait for one descriptor, each is cancelled alone, and the loop serves others meanwhile")
    func sharedDescriptor() throws {
        let result = try Binary.run(
            ["-"],
            input: """
                local rl = require "runloop"
                local pipe = io.popen "sleep 0.2; echo text"
                local function wait(name) return rl.task(function() print(name, rl.wait_readable(pipe):sub(1, 1)) \
                end) end
                local a, b, c = wait "a", wait "b", wait "c"
                local timers = 0
                local timer <close> = rl.every(0.01, function() timers = timers + 1 end)
                print(b:cancel(), b:status())
                a:await()
                c:await()
                print(pcall(b.await, b))
                print(timers > 3, pipe:read())
                """)
        let lines = result.output.split(separator: "\n").map(String.init)
        #expect(Set(lines) == ["true\tcancelled", "a\tr", "c\tr", "false\tcancelled", "true\ttext"], "\(result)")
        #expect(lines.count == 5 && result.status == 0)
    }

    @Test(
        "Runs inside tasks inside runs are refused before the C stack ends, also inside coroutines and metamethods",
        arguments: [
            "rl.task(function() rl.after(0, deeper) run() end)",
            "rl.task(function() coroutine.wrap(function() rl.after(0, deeper) run() end)() end)",
            "local x = setmetatable({}, { __index = function() rl.after(0, deeper) run() end }).x",
            "table.sort({ 1, 2 }, function() rl.after(0, deeper) run() end)",
            "string.gsub('x', '.', function() rl.after(0, deeper) run() end)",
            "rl.after(0, deeper) load(function() run() end)",
        ])
    func deepRuns(_ body: String) throws {
        let result = try Binary.run(
            ["-"],
            input: """
                local rl = require "runloop"
                local depth = 0
                local function run()
                  local ok, message = pcall(rl.run, { timeout = 5 })
                  if not ok then
                    print(message)
                    os.exit(depth > 20 and 7 or 8)
                  end
                end
                function deeper()
                  depth = depth + 1
                  \(body)
                end
                rl.after(0, deeper)
                """)
        #expect(result.status == 7, "\(result)")
        #expect(
            result.output.contains("rl.run: too many nested runs (40)")
                || result.output.contains("C stack overflow"))
    }
}
