-- rl.pool and rl.blocking: run blocking functions on threads of their own, while the loop goes on.

local rl, internals = ...
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local raise, describe = misuse.raise, misuse.describe
local type, select, setmetatable = type, select, setmetatable
local tostring, pcall, error = tostring, pcall, error
local match = string.match
local pack, unpack, integer_of = table.pack, table.unpack, math.tointeger

local Pool = objects.class("runloop.Pool", { __name = "pool", __stays = true })
internals.on_missing(Pool, "pool")

-- Runs in the thread: this port keeps the thread's loop alive until the pool is closed. Everything it uses crosses by
-- name.
local function serve(name)
  local port = rl.port { name = name }
  rl.current():add(port, "common")
end

-- The threads of each pool, by the pool's number. They must outlive a pool that is dropped, because its finalizer ends
-- them.
local threads_of, pools = {}, 0
-- Seconds between two checks whether an abandoned thread has ended, while a task waits for a thread.
local ENDING = 0.02

local function new(threads, name, made_at)
  pools = pools + 1
  threads_of[pools] = {}
  return setmetatable({
    limit = threads, pool_name = name, site = made_at, count = 0, free = rl.channel(math.huge), ending = {},
    number = pools,
  }, Pool)
end

local function lose(self, thread)
  self.count = self.count - 1
  threads_of[self.number][thread], self.ending[thread] = nil, nil
end

local function pool(options)
  if options ~= nil and type(options) ~= "table" then
    raise("rl.pool: an options table is expected, got %s", describe(options))
  end
  local threads, name = 4, "pool"
  for field, value in next, options or {} do
    if field == "threads" then
      threads = type(value) == "number" and integer_of(value)
      if not threads or threads < 1 then
        raise("rl.pool: field 'threads' must be an integer, 1 or more, got %s", describe(value))
      end
    elseif field == "name" then
      if type(value) ~= "string" then raise("rl.pool: field 'name' must be a string, got %s", describe(value)) end
      name = value
    else
      raise("rl.pool: unknown field '%s' (there are: name, threads)", tostring(field))
    end
  end
  return new(threads, name, objects.made_at())
end

-- Returns a free thread. If all are busy and no more are allowed, it waits for one; the task that has waited longest
-- gets the first.
local function take(self)
  while true do
    for thread in next, self.ending do
      if not thread:is_alive() then lose(self, thread) end
    end
    local thread, reason = self.free:receive(0)
    if not thread and reason == "closed" then raise("pool:run: the pool is closed") end
    if not thread and self.count < self.limit then
      local message
      thread, message = rl.thread { serve, self.pool_name, name = self.pool_name, keeps_alive = false }
      if thread then
        self.count = self.count + 1
        threads_of[self.number][thread] = true
        return thread
      end
      if self.count == 0 then raise("pool:run: no thread can be had: " .. message) end
    end
    thread = thread or self.free:receive(next(self.ending) and ENDING)
    if thread and thread:is_alive() then return thread end
    if thread then lose(self, thread) end
  end
end

local function give_back(self, thread)
  if self.free:send(thread) then return end
  lose(self, thread)
  thread:cancel()
end

-- The use of a thread. If it ends while the function still runs, the function is interrupted, and the thread counts
-- until it has ended.
local Use = {}
function Use:__close(err)
  local pool, thread = self.pool, self.thread
  if err == nil or not rl.is_cancelled(err) then return give_back(pool, thread) end
  thread:cancel()
  pool.ending[thread] = true
end

-- Runs in the thread: the request is a table, which cannot represent trailing nils.
local function call_with(fn, count, ...) return fn(unpack({ ... }, 1, count)) end

-- Raises an error of the function unchanged. But a value that cannot be sent is the caller's mistake, and becomes an
-- error of the called function.
local function pass_on(what, fine, ...)
  if fine then return ... end
  local err = ...
  local problem = type(err) == "string" and match(err, "^%[?[^%s]-%]?:?%d*:? ?loop:perform: (cannot send .*)$")
  if problem then raise("%s: %s", what, problem) end
  error(err, 0)
end

local function run(what, self, fn, ...)
  local use <close> = setmetatable({ pool = self, thread = take(self) }, Use)
  local count = select("#", ...)
  local call = count > 0 and select(-1, ...) == nil and pack(call_with, fn, count, ...) or pack(fn, ...)
  call.n, call.wait = nil, what
  local loop = use.thread:loop()
  return pass_on(what, pcall(loop.perform, loop, call))
end

function Pool:run(fn, ...)
  misuse.expect_self(self, Pool, "pool:run")
  misuse.argument(fn, "function", "pool:run", 1)
  return run("pool:run", self, fn, ...)
end

function Pool:map(list, fn)
  misuse.expect_self(self, Pool, "pool:map")
  if type(list) ~= "table" then raise("pool:map: argument #1 must be a list, got %s", describe(list)) end
  misuse.argument(fn, "function", "pool:map", 2)
  local results, next_one, count = {}, 0, #list
  local group <close> = rl.group()
  for _ = 1, math.min(self.limit, count) do
    group:task(function()
      while next_one < count do
        next_one = next_one + 1
        local i = next_one
        results[i] = (run("pool:map", self, fn, list[i], i))
      end
    end)
  end
  group:wait()
  return results
end

function Pool:close()
  misuse.expect_self(self, Pool, "pool:close")
  self.free:close()
  for thread in self.free:values() do
    lose(self, thread)
    thread:cancel()
  end
end

Pool.__close = Pool.close
-- A pool is collected when no script can use its threads any more; a running function keeps the pool alive.
function Pool:__gc()
  for thread in next, threads_of[self.number] do pcall(thread.cancel, thread) end
  threads_of[self.number] = nil
end

function Pool:__tostring()
  return ("pool %q (%d of %d threads, %d free%s, %s)"):format(self.pool_name, self.count, self.limit, self.free:count(),
    self.free:is_closed() and ", closed" or "", self.site)
end

local shared

local function blocking(fn, ...)
  misuse.argument(fn, "function", "rl.blocking", 1)
  if not shared then
    shared = new(4, "blocking", "the host's")
    --- Ends the threads that wait for the next call. Working threads go on, and end after that.
    function internals.end_blocking()
      if shared then shared:close() end
      shared = nil
    end
  end
  return run("rl.blocking", shared, fn, ...)
end

return { pool = pool, blocking = blocking }
