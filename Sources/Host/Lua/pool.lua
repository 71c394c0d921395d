-- rl.pool and rl.blocking: run blocking functions on threads of their own, while the loop goes on.

local rl, internals, crossing = ...
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, describe = misuse.raise, misuse.describe
local type, select, setmetatable = type, select, setmetatable
local tostring, pcall, error = tostring, pcall, error
local match = string.match
local pack, unpack, integer_of = table.pack, table.unpack, math.tointeger

local Pool = objects.class("runloop.Pool", { __name = "pool", __stays = true })

-- Runs in the thread: this port keeps the thread's loop alive until the pool is closed. The function is copied to the
-- thread, so it may use only values that can be sent.
local function serve(name)
  local port = rl.port { name = name }
  rl.current():add(port, "common")
end

-- The threads of each pool, by the pool's number. This table outlives a dropped pool, since the pool's finalizer uses
-- it to end the threads.
local threads_of, pools = {}, 0
-- Seconds between two checks whether an abandoned thread has ended, while a task waits for a thread.
local ENDING = 0.02

-- The code for threads that keep a state: the result of `setup`.
local worker
-- The numbers of the pools with such threads.
local keeps = {}

local function new(threads, name, made_at, setup, on_close)
  pools = pools + 1
  threads_of[pools] = {}
  if setup then
    worker = worker or require "runloop.pool_worker"
    keeps[pools] = true
  end
  return setmetatable({
    limit = threads, pool_name = name, site = made_at, count = 0, free = rl.channel(math.huge), ending = {},
    number = pools, setup = setup, on_close = on_close, pending = 0, is_closed = false,
  }, Pool)
end

local OPTIONS = { threads = "any", name = "string", setup = "any", on_close = "any" }

-- Raises unless a field is a function that a thread can have.
local function expect_copied(field, fn)
  if type(fn) ~= "function" then raise("rl.pool: field '%s' must be a function, got %s", field, describe(fn)) end
  local fine, problem = pcall(crossing["rl.pool"], fn)
  if fine then return end
  raise("rl.pool: field '%s' must be a function that can be copied: %s", field,
    (tostring(problem):gsub("^.-rl%.pool: ", ""):gsub("argument #1", "it", 1)))
end

local function lose(self, thread)
  self.count = self.count - 1
  threads_of[self.number][thread], self.ending[thread] = nil, nil
end

local function pool(options)
  if options ~= nil and type(options) ~= "table" then
    raise("rl.pool: an options table is expected, got %s", describe(options))
  end
  if options and options.via ~= nil then return (require "runloop.nats.pool")(options) end
  options = misuse.options(options, OPTIONS, "rl.pool", 1)
  local setup, on_close, threads = options.setup, options.on_close, options.threads
  if threads == nil then threads = setup and 1 or 4 end
  threads = type(threads) == "number" and integer_of(threads)
  if not threads or threads < 1 then
    raise("rl.pool: field 'threads' must be an integer, 1 or more, got %s", describe(options.threads))
  end
  if setup ~= nil then expect_copied("setup", setup) end
  if on_close ~= nil then expect_copied("on_close", on_close) end
  if on_close and not setup then raise "rl.pool: field 'on_close' needs field 'setup'" end
  return new(threads, options.name or "pool", objects.made_at(), setup, on_close)
end

-- Returns a free thread. If all threads are busy and no more are allowed, waits for a thread; the task that has waited
-- longest gets the first free thread.
local function take(self)
  while true do
    for thread in next, self.ending do
      if not thread:is_alive() then lose(self, thread) end
    end
    local thread, reason = self.free:receive(0)
    if not thread and reason == "closed" then raise("pool:run: the pool is closed") end
    if not thread and self.count < self.limit then
      local message
      local call = self.setup and { worker.serve, self.setup, self.on_close } or { serve, self.pool_name }
      -- "pool" instead of a boolean for `keeps_alive`: the thread does not keep the loop running.
      thread, message = crossing["rl.thread"](self.pool_name, "pool", package.path, package.cpath, nil, nil,
        unpack(call))
      if thread then
        self.count = self.count + 1
        threads_of[self.number][thread] = true
        return thread
      end
      if self.count == 0 then raise("pool:run: no thread can be started: " .. message) end
    end
    thread = thread or self.free:receive(next(self.ending) and ENDING)
    if thread and thread:is_alive() then return thread end
    if thread then lose(self, thread) end
  end
end

-- The threads that run `on_close`. This table keeps them alive, so that the host reports an error of `on_close`.
local finishing = {}

-- Ends a thread, after `on_close`.
local function finish(thread)
  for other in next, finishing do
    if not other:is_alive() then finishing[other] = nil end
  end
  finishing[thread] = true
  pcall(function() thread:loop():perform(worker.finish) end)
end

-- The closed pools in which functions still run.
local closing = {}
--- Whether closed pools still run functions. No other object shows that these functions still have to end.
function internals.are_pools_closing() return next(closing) ~= nil end

-- Ends the threads that keep a state when the pool is closed and its queue is empty.
local function finish_all(self)
  if not self.is_closed then return end
  closing[self] = self.pending > 0 or nil
  if self.pending > 0 then return end
  self.free:close()
  for thread in self.free:values() do
    lose(self, thread)
    finish(thread)
  end
end

local function give_back(self, thread)
  if self.free:send(thread) then return end
  lose(self, thread)
  thread:cancel()
end

-- A use of a thread. If the use ends while the function still runs, the function is interrupted, and the thread counts
-- as busy until the function has ended.
local Use = {}
function Use:__close(err)
  local pool, thread = self.pool, self.thread
  if not self.limit and (err == nil or not rl.is_cancelled(err)) then return give_back(pool, thread) end
  thread:cancel()
  pool.ending[thread] = true
end

-- A use of a thread that keeps a state. If no task waits for the function any more, the function still runs to its end,
-- so that its work on a connection is complete. Only then is the thread free.
local KeptUse = {}

local function end_use(self, thread, limit)
  self.pending = self.pending - 1
  if thread and not limit and thread:is_alive() then
    self.free:send(thread)
  elseif thread then
    lose(self, thread)
  end
  finish_all(self)
end

local function wait_out(self, thread)
  pcall(function() thread:loop():perform { worker.rest, wait = "pool:run" } end)
  end_use(self, thread)
end

function KeptUse:__close(err)
  local pool, thread = self.pool, self.thread
  if thread and err ~= nil and rl.is_cancelled(err) then
    rl.task(wait_out, pool, thread)
  else
    end_use(pool, thread, self.limit)
  end
end

-- A map counts as one call, so that its pool stays open between its functions.
local MapUse = {}
function MapUse:__close()
  local pool = self.pool
  pool.pending = pool.pending - 1
  if pool.setup then finish_all(pool) end
end

-- Runs in the thread: the request is a table, which cannot represent trailing nils.
local function call_with(fn, count, ...) return fn(unpack({ ... }, 1, count)) end

-- If a value could not be sent, returns the problem. `shift` is the number of arguments before those of the call.
local function unsent(err, shift)
  local problem = type(err) == "string" and match(err, "^%[?[^%s]-%]?:?%d*:? ?loop:perform: (cannot send .*)$")
  if not problem or shift == 0 then return problem end
  return (problem:gsub("argument #2 → ", "", 1):gsub("argument #(%d+)", function(number)
    return "argument #" .. math.max(1, number - shift)
  end, 1))
end

-- Raises an error of the function unchanged. There are two exceptions. If a value cannot be sent, the error names the
-- called method, since that is the caller's mistake. If a limit has ended the thread, the caller gets an ordinary
-- error, not a cancellation, so that its task goes on.
local function pass_on(what, use, shift, fine, ...)
  if fine then return ... end
  local err = ...
  use.limit = rl.is_cancelled(err) and crossing["rl.thread_limit"](use.thread)
  if use.limit then error(use.limit, 0) end
  local problem = unsent(err, shift)
  if problem then raise("%s: %s", what, problem) end
  error(err, 0)
end

local function check_open(self, what)
  if self.is_closed then raise("%s: the pool is closed", what) end
end

local function run_kept(what, self, fn, ...)
  self.pending = self.pending + 1
  local use <close> = setmetatable({ pool = self }, KeptUse)
  use.thread = take(self)
  local call = pack(worker.call, fn, select("#", ...), ...)
  call.n, call.wait = nil, what
  local loop = use.thread:loop()
  return pass_on(what, use, 2, pcall(loop.perform, loop, call))
end

local function run(what, self, fn, ...)
  if self.setup then return run_kept(what, self, fn, ...) end
  local use <close> = setmetatable({ pool = self, thread = take(self) }, Use)
  local count = select("#", ...)
  local counts = count > 0 and select(-1, ...) == nil
  local call = counts and pack(call_with, fn, count, ...) or pack(fn, ...)
  call.n, call.wait = nil, what
  local loop = use.thread:loop()
  return pass_on(what, use, counts and 2 or 0, pcall(loop.perform, loop, call))
end

function Pool:run(fn, ...)
  misuse.expect_self(self, Pool, "pool:run")
  misuse.argument(fn, "function", "pool:run", 1)
  if self.setup then check_open(self, "pool:run") end
  return run("pool:run", self, fn, ...)
end

function Pool:map(list, fn)
  misuse.expect_self(self, Pool, "pool:map")
  if type(list) ~= "table" then raise("pool:map: argument #1 must be a list, got %s", describe(list)) end
  misuse.argument(fn, "function", "pool:map", 2)
  -- If the pool is closed later, the map goes on to its end.
  if self.setup then check_open(self, "pool:map") end
  local results, left, count, problem = {}, 1, #list, nil
  -- Ends the tasks. A mistake in the arguments must be raised here, at the caller's line, which the tasks do not know.
  local function fail(i, err)
    left = count + 1
    problem = type(err) == "string" and match(err, "^pool:map: (.*)$")
    if not problem then error(err, 0) end
    problem = problem:gsub("argument #2", ("element %d of the list"):format(i), 1)
  end
  local function work()
    while left <= count do
      local i = left
      left = i + 1
      local fine, result = pcall(run, "pool:map", self, fn, list[i], i)
      if fine then results[i] = result else fail(i, result) end
    end
  end
  self.pending = self.pending + 1
  local _ <close> = setmetatable({ pool = self }, MapUse)
  local group <close> = rl.group()
  for _ = 1, math.min(self.limit, count) do
    if left <= count then group:task(work) end
  end
  group:wait()
  if problem then raise("pool:map: %s", problem) end
  return results
end

function Pool:close()
  misuse.expect_self(self, Pool, "pool:close")
  if self.setup then
    self.is_closed = true
    return finish_all(self)
  end
  self.free:close()
  for thread in self.free:values() do
    lose(self, thread)
    thread:cancel()
  end
end

Pool.__close = Pool.close
-- A pool is collected when no script can use its threads any more; a running function keeps the pool alive.
function Pool:__gc()
  for thread in next, threads_of[self.number] do
    if keeps[self.number] then finish(thread) else pcall(thread.cancel, thread) end
  end
  threads_of[self.number], keeps[self.number] = nil, nil
end

function Pool:__tostring()
  return ("pool %q (%d of %d threads, %d free%s, %s)"):format(self.pool_name, self.count, self.limit, self.free:count(),
    (self.is_closed or self.free:is_closed()) and ", closed" or "", self.site)
end

local shared

local function blocking(fn, ...)
  misuse.argument(fn, "function", "rl.blocking", 1)
  if not shared then
    shared = new(4, "blocking", "the host's")
    --- Ends the threads that wait for the next call. Other threads end after their running call.
    function internals.end_blocking()
      if shared then shared:close() end
      shared = nil
    end
  end
  return run("rl.blocking", shared, fn, ...)
end

-- A worker of a pool on other machines.
local function worker_via(options)
  if type(options) ~= "table" then raise("rl.worker: an options table is expected, got %s", describe(options)) end
  if options.via == nil then raise "rl.worker: field 'via' must be a bus, as nats.connect returns it, got nothing" end
  return (require "runloop.nats.worker")(options)
end

return { pool = pool, blocking = blocking, worker = worker_via }
