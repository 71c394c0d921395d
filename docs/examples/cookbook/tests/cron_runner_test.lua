local rl, fs, sqlite = require "runloop", require "runloop.fs", require "runloop.sqlite"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("cron_runner", { starts_at = "2026-03-28 12:00:30" }, function()
  local directory

  local function start(crontab)
    assert(fs.write(directory .. "/crontab", crontab))
    return support.start("cron_runner", { "crontab", "state", directory = directory })
  end
  local function lines() return select(2, (fs.read(directory .. "/out") or ""):gsub("\n", "")) end

  t.before_each(function() directory = support.directory() end)

  t.it("runs commands at their times", function()
    local runner = start "# a comment\n*/5 * * * * echo five >> out\n@daily echo a day >> out\n"
    rl.sleep(3600)
    t.equal(lines(), 12)
    runner:wait_for('echo five >> out due="2026%-03%-28 12:05" .*result=0', { from = "errors" })
    rl.sleep(11 * 3600)
    t.equal(fs.read(directory .. "/out"):match "%d*a day", "a day")
  end)

  t.it("makes up once for the times that passed while it did not run", function()
    local runner = start "*/5 * * * * echo five >> out\n"
    rl.sleep(600)
    runner:kill()
    t.equal(lines(), 2)
    rl.sleep(86400)
    start "*/5 * * * * echo five >> out\n"
    t.eventually(function() return lines() == 3 end)
    rl.sleep(299)
    t.equal(lines(), 4)
  end)

  t.it("runs a job again that kill -9 has cut off, and no other", function()
    local runner = start [[
1 12 * * * echo b >> other
2 12 * * * echo begun >> out; test -e go || exec sleep 1006; echo done >> out
]]
    t.eventually(function() return lines() == 1 end, { within = 200, every = 1 })
    runner:signal "KILL"
    runner:wait()
    assert(fs.write(directory .. "/go", ""))
    start(fs.read(directory .. "/crontab"))
    t.eventually(function() return lines() == 3 end)
    t.equal(fs.read(directory .. "/out"), "begun\nbegun\ndone\n")
    t.equal(fs.read(directory .. "/other"), "b\n")
    local db <close> = assert(sqlite.open(directory .. "/state", { read_only = true }))
    t.eventually(function()
      local results = assert(db:query { "SELECT result FROM runs ORDER BY rowid", lists = true })
      return #results == 3 and results[2][1] == "cut off" and results[3][1] == "0"
    end)
  end)

  t.it("is alone", function()
    start "@daily true\n"
    t.eventually(function() return fs.stat(directory .. "/state") ~= nil end)
    local second = start "@daily true\n"
    second:wait_for("EBUSY: held by process %d+", { from = "errors" })
    t.equal(second:wait(), 1)
  end)
end)
