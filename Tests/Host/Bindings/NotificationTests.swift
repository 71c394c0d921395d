import TestSupport
import Testing

@Suite("Notifications", .timed)
struct NotificationTests {
    @Test("the checks of a script about the queue pass, misuse included", arguments: ["notification-queue.lua"])
    func scripts(script: String) throws { try ToldScript.check("\(ThreadTests.folder)/\(script)") }

    @Test("adding and removing many observers takes linear time")
    func many() throws {
        let run = try Binary.run(
            ["-"],
            input: """
                local rl = require "runloop"
                local function cost(count, make)
                  local all, start = {}, os.clock()
                  for i = 1, count do all[i] = make() end
                  for i = 1, count do all[i]:invalidate() end
                  return os.clock() - start
                end
                for _, make in ipairs { function() return rl.notifications:observe("n", print) end, function() \
                return rl.observe("exit", print) end } do
                  local few, many = cost(2000, make), cost(16000, make)
                  print(many < 30 * few + 0.1 or ("%.3f %.3f"):format(few, many))
                end
                """)
        #expect(run.output == "true\ntrue\n", "\(run)")
    }

    @Test("removing or posting many queued notifications takes linear time")
    func manyQueued() throws {
        let run = try Binary.run(
            ["-"],
            input: """
                local rl = require "runloop"
                local n = rl.notifications
                local function cost(count, finish)
                  for i = 1, count do n:enqueue("n", i, { coalesce = {} }) end
                  local start = os.clock()
                  finish(count)
                  return os.clock() - start
                end
                for _, finish in ipairs { function(count) assert(n:dequeue "n" == count) end, function() rl.sleep(0) \
                assert(n:dequeue "n" == 0) end } do
                  local few, many = cost(2000, finish), cost(16000, finish)
                  print(many < 24 * few + 0.01 or ("%.3f %.3f"):format(few, many))
                end
                """)
        #expect(run.output == "true\ntrue\n", "\(run)")
    }

    @Test("a delivery leaves out observers that are removed or added during it")
    func meanwhile() throws {
        let run = try Binary.run(
            ["-"],
            input: """
                local n = require "runloop".notifications
                local told, late, all = {}, nil, {}
                for i = 1, 40 do
                  all[i] = n:observe("n", function()
                    told[#told + 1] = i
                    if i == 2 then for k = 3, 39 do all[k]:invalidate() end late = late or n:observe("n", function() \
                told[#told + 1] = "late" end) end
                  end)
                end
                n:post "n"
                n:post "n"
                for i = 1, 40 do all[i]:invalidate() end
                late:invalidate()
                n:post "n"
                print(table.concat(told, " "))
                """)
        #expect(run.output == "1 2 40 1 2 40 late\n", "\(run)")
    }
}
