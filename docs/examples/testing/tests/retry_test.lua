local rl = require "runloop"
local t = require "runloop.test"
local retry = require "retry"

t.describe("retry", function()
  local journal

  t.before_each(function() journal = t.journal { times = true } end)

  local function fails_until(good)
    return function(attempt)
      journal("attempt", attempt)
      if attempt < good then error "busy" end
      return "done"
    end
  end

  t.it("returns what the function returns", function()
    t.equal(retry(fails_until(1), { times = 3, pause = 1 }), "done")
    journal:equal { "0 attempt 1" }
  end)

  t.it("doubles its pauses", function()
    t.equal(retry(fails_until(4), { times = 5, pause = 10 }), "done")
    journal:equal { "0 attempt 1", "10 attempt 2", "30 attempt 3", "70 attempt 4" }
  end)

  t.it("gives up with the last error", function()
    t.error(function() retry(fails_until(9), { times = 2, pause = 60 }) end, "after 2 attempts: .*busy")
    t.equal(rl.now(), 60)
  end)
end)
