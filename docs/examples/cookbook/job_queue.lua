-- job_queue.lua: a queue of commands in an SQLite file, for any number of processes on this machine.
--   rlhost job_queue.lua FILE add WORD...     queues a command
--   rlhost job_queue.lua FILE work [NUMBER]   runs jobs, this number at a time (2); any number of workers may run
--   rlhost job_queue.lua FILE list
-- A job that fails is tried five times, with longer and longer pauses. If a worker is killed, another takes its jobs.
local rl, process, fs = require "runloop", require "runloop.process", require "runloop.fs"
local sqlite, json, log = require "runloop.sqlite", require "runloop.json", require "runloop.log"

local path, command = arg[1], arg[2]
local LEASE, TRIES = 15, 5 -- seconds for which a job belongs to a worker that does not renew its lease

local function open()
  local db = assert(sqlite.open(path))
  assert(db:script [[CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY, words TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'queued', tries INTEGER NOT NULL DEFAULT 0,
    due REAL NOT NULL DEFAULT 0, output TEXT)]])
  return db
end

-- Takes the oldest job that is due: a queued one, or one whose worker has not renewed its lease.
local TAKE = [[
  UPDATE jobs SET state = 'running', tries = tries + 1, due = ?1 + ?2
  WHERE id = (SELECT id FROM jobs WHERE state IN ('queued', 'running') AND due <= ?1 ORDER BY id LIMIT 1)
  RETURNING id, words, tries]]

local function run(db, job)
  local lease <close> = rl.every(LEASE / 3, function()
    assert(db:execute("UPDATE jobs SET due = ? WHERE id = ?", rl.time() + LEASE, job.id))
  end)
  local words = json.decode(job.words)
  words.errors, words.dies_with_host, words.max_output = "output", true, 1 << 20
  local result, problem = process.run(words)
  local fine, state = result and result.code == 0, "done"
  if not fine then state = job.tries < TRIES and "queued" or "failed" end
  lease:invalidate()
  assert(db:execute("UPDATE jobs SET state = ?, due = ?, output = ? WHERE id = ?", state,
    rl.time() + 2 ^ job.tries, result and result.output or problem, job.id))
  log.info("job " .. job.id .. " " .. (fine and "done" or "failed"), { words = job.words, tries = job.tries })
end

local function work(number)
  local db = open()
  local changes = assert(fs.watch(path .. "-wal", { while_writing = true, latency = 0.01 })) -- what `add` writes to
  local free, bell = rl.mutex(number), rl.condition()
  rl.task(function() while changes:next() do bell:signal() end end)
  while true do
    local place = free:lock()
    local job = assert(db:query(TAKE, rl.time(), LEASE))[1]
    if job then
      rl.task(function()
        run(db, job)
        place:unlock()
      end)
    else
      place:unlock()
      bell:wait(1) -- for a new job, or for one that becomes due again
    end
  end
end

if command == "add" and arg[3] then
  local words = json.encode(json.array { table.unpack(arg, 3) })
  print(assert(open():value("INSERT INTO jobs (words) VALUES (?) RETURNING id", words)))
elseif command == "work" then
  work(tonumber(arg[3]) or 2)
elseif command == "list" then
  for job in open():rows "SELECT id, state, tries, words FROM jobs ORDER BY id" do
    print(("%6d  %-8s %d  %s"):format(job.id, job.state, job.tries, table.concat(json.decode(job.words), " ")))
  end
else
  io.stderr:write "usage: rlhost job_queue.lua FILE add WORD... | work [NUMBER] | list\n"
  os.exit(64)
end
