-- A queue of jobs in PostgreSQL. Any number of workers may run, and may be killed: each worker holds its job in a
-- transaction, so the server gives the job to another worker when this one ends. PGHOST and similar variables name the
-- database.
--
--   rlhost jobs.lua add "a job"
--   rlhost jobs.lua work

local rl = require "runloop"
local postgres = require "runloop.postgres"

local PLACE = os.getenv "DATABASE_URL" or ""
-- Seconds after which a worker looks for jobs without a notification: one may be lost with its connection.
local PATIENCE = 5

local db <close> = assert(postgres.open(PLACE))
-- Programs that start at the same time create the table one after the other.
assert(db:script [[
  select pg_advisory_xact_lock(1);
  create table if not exists jobs (id bigserial primary key, text text not null, done timestamptz, worker text)]])

local function add(text)
  local tx <close> = assert(db:begin())
  local id = assert(tx:value("insert into jobs (text) values ($1) returning id", text))
  -- Workers are notified at the commit.
  assert(tx:publish("jobs", tostring(id)))
  assert(tx:commit())
  print("added", id)
end

local function perform(text) rl.sleep(tonumber(text:match "^sleep ([%d.]+)") or 0) end

-- Does one job. Returns whether there was a job.
local function work_once(name)
  local tx <close> = assert(db:begin())
  local job = tx:row [[select id, text from jobs where done is null order by id limit 1 for update skip locked]]
  if not job then return false end
  perform(job.text)
  assert(tx:execute("update jobs set done = now(), worker = $2 where id = $1", job.id, name))
  assert(tx:commit())
  print("done", job.id)
  return true
end

local function work(name)
  local calls <close> = assert(db:subscribe "jobs")
  while true do
    -- A lost connection loses the job that was under way: the server gives it to a worker again.
    local is_good, found = pcall(work_once, name)
    if not is_good then
      print("again", found)
      rl.sleep(0.1)
    elseif not found then
      calls:receive(PATIENCE)
    end
  end
end

io.stdout:setvbuf "line"
if arg[1] == "add" then
  for i = 2, #arg do add(arg[i]) end
elseif arg[1] == "work" then
  work(arg[2] or "worker")
else
  error("usage: jobs.lua add TEXT… | jobs.lua work [NAME]", 0)
end
