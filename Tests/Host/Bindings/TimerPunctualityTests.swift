import TestSupport
import Testing

@Suite(.timed) struct TimerPunctualityTests {
    @Test("no timer is ever early by the monotonic clock") func noTimerIsEverEarlyByTheMonotonicClock() throws {
        let script = """
            local rl = require "runloop"
            local now, random = rl.now, math.random
            local fired, early = 0, 0
            for i = 1, 50000 do
              local delay = random() * 0.3
              local date = now() + delay
              rl.after(delay, function() fired = fired + 1 if now() < date - 1e-9 then early = early + 1 end end)
            end
            for i = 1, 1000 do
              local interval = 0.001 + random() * 0.01
              local date = now() + interval
              rl.current():add(rl.timer { interval = interval, tolerance = interval / 3, callback = function(t, missed)
                date = date + missed * interval
                if now() < date - 1e-6 then early = early + 1 end
                date = date + interval
                if fired >= 50000 then t:invalidate() end
              end })
            end
            rl.run()
            print(fired, early)
            """
        let result = try Binary.run(["-e", script])
        #expect(result.output == "50000\t0\n", "\(result.errors)")
    }

    @Test("a repeating timer stays on its grid however long its callback works")
    func aRepeatingTimerStaysOnItsGridHoweverLongItsCallbackWorks() throws {
        let script = """
            local rl = require "runloop"
            local start, fires, missed, last = rl.now(), 0, 0, 0
            local t
            t = rl.timer { interval = 0.01, callback = function(timer, count)
              fires, missed = fires + 1, missed + count
              -- Its date is a point of the grid, later than the one before, and none is left out of the count.
              local point = (timer:fire_date() - start) / 0.01
              local whole = math.floor(point + 0.5)
              if math.abs(point - whole) > 1e-4 or whole <= last or whole > fires + missed or rl.now() \
            < timer:fire_date() - 1e-9 then
                print("off the grid", point, last, fires, missed)
              end
              last = whole
              local done = rl.now() + 0.003
              while rl.now() < done do end
              if fires == 100 then timer:invalidate() end
            end }
            start = t:fire_date() - 0.01
            rl.current():add(t)
            rl.run()
            print("done", fires)
            """
        let result = try Binary.run(["-e", script])
        #expect(result.output == "done\t100\n", "\(result.errors)")
    }
}
