-- Shared by the Lua peers: the clock, the report, the numbers that the workloads draw.
local posix = require "posix"

local common = { posix = posix, message = "12345678" }
local started_at, started_cpu

function common.start()
  started_at, started_cpu = posix.now(), posix.cpu()
end

function common.report(operations)
  local cpu, wall = posix.cpu() - started_cpu, posix.now() - started_at
  print(string.format('{"ops": %d, "cpu": %.9f, "wall": %.9f}', operations, cpu, wall))
end

function common.report_repeating(fires, due)
  local cpu = posix.cpu() - started_cpu
  print(string.format('{"ops": %d, "cpu": %.9f, "delivered": %.6f}', fires, cpu, fires / due))
end

-- Lateness in steps of 5 µs up to 40 ms. The collector would scan a list of all values again and again, and its pauses
-- would distort the result.
function common.lateness()
  local steps, counts = 8000, {}
  for i = 1, steps do counts[i] = 0 end
  local noted = 0
  local function note(seconds)
    local step = seconds * 200000 // 1 + 1
    if step > steps then step = steps elseif step < 1 then step = 1 end  -- early counts as on time
    counts[step] = counts[step] + 1
    noted = noted + 1
  end
  local function report()
    local step, seen = 0, 0
    repeat
      step = step + 1
      seen = seen + counts[step]
    until seen >= noted * 0.99
    print(string.format('{"ops": %d, "p99": %.9f}', noted, step / 200000))
  end
  return note, report
end

-- Anonymous memory after two collections: the second one frees the garbage of finalizers.
local function memory()
  collectgarbage()
  collectgarbage()
  return posix.memory()
end

function common.report_memory(objects, build)
  local before = memory()
  local kept = build()
  print(string.format('{"ops": %d, "bytes": %d}', objects, memory() - before))
  return kept
end

-- Returns a list of `n` records, as an API answers it.
function common.records(n)
  local records = {}
  for i = 1, n do
    records[i] = { id = i, name = "item number " .. i, price = i * 1.25, tags = { "a", "b", "c" }, sold = i % 2 == 0,
      text = 'with "quotes" and\nlines, ' .. i }
  end
  return records
end

-- Encodes or decodes such records `count` times. Reports the cost of a record.
function common.json(json, encodes, size, count)
  local records = common.records(size)
  local text = json.encode(records)
  common.start()
  if encodes then
    for _ = 1, count do json.encode(records) end
  else
    for _ = 1, count do json.decode(text) end
  end
  common.report(size * count)
end

-- Returns a directory, and a shell command that writes `count` files into it and then a file called done.
function common.writer(count)
  local pipe = io.popen "mktemp -d /tmp/bench-XXXXXX"
  local directory = pipe:read "l"
  pipe:close()
  return directory, ("cd %s; i=0; while [ $i -lt %d ]; do : > f$((i %% 100)); i=$((i + 1)); done; : > done")
    :format(directory, count)
end

-- Intervals of the repeating timers: 1 to 10 whole milliseconds, since libuv and Node accept nothing finer.
function common.interval(i)
  return 1 + i % 10
end

function common.due(timers, milliseconds)
  local due = 0
  for i = 0, timers - 1 do due = due + milliseconds // common.interval(i) end
  return due
end

function common.pipes(n)
  local readers, writers = {}, {}
  for i = 1, n do readers[i], writers[i] = assert(posix.pipe()) end
  return readers, writers
end

function common.socketpairs(n)
  local ours, theirs = {}, {}
  for i = 1, n do ours[i], theirs[i] = assert(posix.socketpair()) end
  return ours, theirs
end

-- run(workloads, name, size, count): runs the workload of this name; exits with status 69 if this peer has no such
-- workload.
function common.run(workloads, name, size, count)
  local workload = workloads[name]
  if not workload then os.exit(69) end
  math.randomseed(1)
  workload(math.tointeger(size), math.tointeger(count))
  io.stdout:flush()
end

return common
