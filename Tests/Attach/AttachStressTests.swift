import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Attaching many times", .timed)
struct AttachStressTests {
    @Test("many clients leave no memory, descriptors or sessions behind", .soak(seconds: 30))
    func memory() throws {
        let target = try AttachedProcess()
        let round = """
            for i in $(seq 1 $N); do "$RLHOST" attach \(target.pid) -e 'local t = {} for i = 1, 100 do t[i] = i end return #t' \
            > /dev/null || exit 1; done
            """
        func attach(_ count: Int) throws {
            let run = try Binary.shell(
                round, environment: target.environment.merging(["N": "\(count)"]) { own, _ in own }, timeout: 300)
            #expect(run.status == 0, "\(run)")
        }
        let memory = "collectgarbage() collectgarbage() return collectgarbage 'count' * 1024 // 1"
        try attach(50)
        let before = try #require(Double(try target.value(memory)))
        let resident = Self.resident(target.pid)
        let descriptors = target.settledDescriptors
        for _ in Soak.seeds {
            try attach(20)
            // Only this test reads the log.
            _ = target.process.waitForErrors("no such text", timeout: 0.01)
        }
        let after = try #require(Double(try target.value(memory)))
        #expect(after - before < 20_000, "Lua has \(after - before) bytes more")
        #expect(
            Binary.isUnderAddressSanitizer || Self.resident(target.pid) - resident < 4000,
            "the process has \(Self.resident(target.pid) - resident) KB more")
        #expect(target.settledDescriptors == descriptors)
    }

    /// Kilobytes.
    private static func resident(_ process: pid_t) -> Int {
        let text = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        return text.firstMatch(of: /VmRSS:\s*(\d+)/).flatMap { Int($0.1) } ?? 0
    }

    @Test("clients that are killed at random moments do not harm the process", .soak(seconds: 20))
    func killedClients() throws {
        let target = try AttachedProcess()
        let codes = [
            "for i = 1, 1e9 do print(i) end", "rl.sleep(100)", "while true do end", "rl.run()", "('x'):rep(1e7)",
            "local t = rl.every(0.001, function() end) rl.sleep(0.01) t:invalidate()", "error 'x'",
            "while true do pcall(rl.sleep, 0.001) end",
        ]
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let client = try target.start("-e", codes[random.next(codes.count)])
            usleep(UInt32.random(in: 0..<40_000, using: &random))
            client.signal(SIGKILL)
            _ = client.finish()
        }
        #expect(try target.value("'alive'") == "alive")
        let before = try target.value("counter")
        #expect(try target.value("rl.sleep(0.05) return counter > \(before)") == "true")
        #expect(try target.value("select(2, rl.why():gsub('rl%.sleep', ''))") == "0")
    }

    @Test("a client that sends invalid data, and leaves in the middle, does not harm the process", .soak(seconds: 20))
    func nonsense() throws {
        for seed in Soak.seeds { try talkNonsense(seed) }
    }

    private func talkNonsense(_ seed: UInt64) throws {
        let target = try AttachedProcess()
        _ = try target.value("1")
        let descriptors = target.settledDescriptors
        let script = Binary.interruptible(
            """
            local rl = require "runloop"
            math.randomseed(\(seed))
            local texts = { "", "1", "1\\nx\\27[31m", "2\\n", "why", "help rl.sleep", "help \\xff\\xfe", "for i = 1", "rl.",
              "1 80 0 0\\nprint(1)", "2 80 1 1\\nrl.sleep(0.001)", "9999999999 -5 1 1\\nreturn _G", "\\xff\\xff\\n", "1 2 3\\n",
              "3 80 0 0\\nrl.run { timeout = 0.001 }", "4 1 1 1\\nerror {}", "-1 80 0 0\\nprint(2)", ("z"):rep(100000),
              "5 80 0 0\\nlocal c <close> = setmetatable({}, { __close = error }) rl.sleep(1)", "6 80 0 0\\nwhile true do end" }
            local ids = { 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 0, 99, -5 }
            for round = 1, 60 do
              local remote = assert(rl.remote_port "rlhost-attach.\(target.pid)")
              if math.random() < 0.8 then rl.task(remote.request, remote, 1, "1\\n/dev/nowhere") end
              for i = 1, math.random(0, 40) do
                local id, text = ids[math.random(#ids)], texts[math.random(#texts)]
                rl.task(remote[math.random() < 0.9 and "request" or "send"], remote, id, text)
                if math.random() < 0.1 then rl.sleep(0.001) end
              end
              if math.random() < 0.3 then rl.sleep(0.002) end
              remote:invalidate()
            end
            os.exit(0)
            """)
        let run = try Binary.run(["-e", script], environment: target.environment)
        #expect(run.status == 0, "\(run)")
        #expect(try target.value("'alive', rl.why():find 'attach' == nil") == "alive\ttrue")
        _ = target.process.waitForErrors("no such text", timeout: 0.01)
        #expect(target.settledDescriptors == descriptors)
        #expect(!target.process.errorText.contains("\u{1B}"))
    }

    @Test("interruptions at random moments end the entry only, never the process's callbacks", .soak(seconds: 20))
    func interruptions() throws {
        // An error in a callback would end the process.
        let target = try AttachedProcess(
            ["--attach"],
            AttachedProcess.script + " rl.every(0.001, function() for i = 1, 30000 do counter = counter + 0 end end)"
                + " rl.observe('all', function() for i = 1, 300 do counter = counter + 0 end end)")
        let codes = [
            "rl.run()", "while true do rl.run { timeout = 0.003 } end", "for i = 1, 3e5 do end",
            "while true do rl.sleep(0) end", "while true do pcall(rl.run) end", "rl.all_of(rl.run, rl.run)",
            "rl.task(function() while true do end end)",
        ]
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let code = codes[random.next(codes.count)]
            let client = try target.start("-e", "print 'here' " + code)
            #expect(client.waitForOutput("here"))
            usleep(UInt32.random(in: 0..<20_000, using: &random))
            client.signal(SIGINT)
            let run = client.finish(timeout: 20)
            #expect(run.status == 130 || run.status == 0, "\(code): \(run)")
            _ = target.process.waitForErrors("no such text", timeout: 0.001)
        }
        let before = try target.value("counter")
        #expect(try target.value("rl.sleep(0.05) return counter > \(before)") == "true")
        #expect(!target.process.errorText.contains("target.lua"), "\(target.process.errorText)")
    }

    @Test(
        "processes that are killed at random moments are noticed at once, and leave no files",
        .soak(seconds: 20))
    func killedTargets() throws {
        let folder = try AttachedProcess.makeFolder()
        for seed in Soak.seeds {
            var random = Random(seed: seed)
            let target = try AttachedProcess(folder: folder)
            let clients = [
                try target.start("-e", "for i = 1, 1e9 do print(i) rl.sleep(0) end"),
                try target.start("-e", "rl.sleep(100)"), try target.start(),
            ]
            usleep(UInt32.random(in: 0..<60_000, using: &random))
            target.process.signal(seed % 2 == 0 ? SIGKILL : SIGTERM)
            for client in clients {
                let run = client.finish(timeout: 20)
                // SIGTERM becomes an error in the Lua code that runs.
                let isInterrupted = run.status == 1 && run.errors.contains("interrupted!")
                let isTold = run.status == 69 && run.errors.contains("\(target.pid)")
                #expect(isTold || isInterrupted, "\(run.status) \(run.errors) \(run.timedOut)")
            }
        }
        // `attach` without a name lists the processes, and removes the files of dead ones.
        _ = try Binary.run(["attach"], environment: ["XDG_RUNTIME_DIR": folder.url.path])
        let left = try FileManager.default.contentsOfDirectory(atPath: "\(folder.url.path)/rlhost")
        #expect(left.isEmpty, "\(left)")
    }
}
