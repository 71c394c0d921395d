-- cron_runner.lua CRONTAB STATE: runs the commands of a crontab ("*/5 * * * * command"), and keeps in a database what
-- ran when. So nothing is forgotten, whatever ends this program: at its next start, each job whose time has passed runs
-- once, and so does a job that was cut off.
local rl, process, fs = require "runloop", require "runloop.process", require "runloop.fs"
local schedule, sqlite, log = require "runloop.schedule", require "runloop.sqlite", require "runloop.log"

local crontab, state = arg[1], arg[2]
if not state then io.stderr:write "usage: rlhost cron_runner.lua CRONTAB STATE\n" os.exit(64) end

local only <close> = assert(fs.lock(state .. ".lock", { timeout = 0 })) -- only one runner may use a state
local db <close> = assert(sqlite.open(state, { synchronous = "full" }))
assert(db:script [[
  CREATE TABLE IF NOT EXISTS jobs (line TEXT PRIMARY KEY, due INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS runs (line TEXT, due INTEGER, began INTEGER, ended INTEGER, result TEXT);
]])

-- Runs the command of a line for the moment `due`. The moment is stored first and the end last, so a run without an end
-- was cut off.
local function run(line, command, due)
  assert(db:batch {
    { "UPDATE jobs SET due = ? WHERE line = ?", due, line },
    { "INSERT INTO runs (line, due, began) VALUES (?, ?, unixepoch())", line, due },
  })
  local result, problem = process.shell(command, { dies_with_host = true, errors = "output", name = command })
  local outcome = not result and problem or result.signal or tostring(result.code)
  assert(db:execute("UPDATE runs SET ended = unixepoch(), result = ? WHERE line = ? AND ended IS NULL", outcome, line))
  log.info(command, { due = os.date("%F %R", due), result = outcome, output = result and result.output })
end

-- Returns the time for which a job must run now: the time of an interrupted run, or else the last one that has passed.
local function owed(line, expression)
  local cut = assert(db:query("SELECT due FROM runs WHERE line = ? AND ended IS NULL", line))[1]
  if cut then
    assert(db:execute("UPDATE runs SET ended = unixepoch(), result = 'cut off' WHERE line = ? AND ended IS NULL", line))
  end
  local moment, last = cut and cut.due, assert(db:value("SELECT due FROM jobs WHERE line = ?", line))
  local following = schedule.next_time(expression, last)
  while following and following <= rl.time() do
    moment, following = following, schedule.next_time(expression, following)
  end
  return moment
end

for line in assert(io.open(crontab)):lines() do
  local expression, command = line:match "^%s*(@%a+)%s+(.+)$"
  if not expression then expression, command = line:match("^%s*([%d*]" .. ("%S*%s+"):rep(5) .. ")(.+)$") end
  if expression then
    assert(db:execute("INSERT OR IGNORE INTO jobs VALUES (?, ?)", line, math.floor(rl.time())))
    rl.task(function()
      local moment = owed(line, expression)
      if moment then run(line, command, moment) end
      schedule.cron(expression, function(_, due) run(line, command, due) end, { missed = "once", name = line })
    end)
  end
end
rl.sleep(math.huge)
