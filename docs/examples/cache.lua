-- An HTTP cache in front of a slow service, with its answers in Redis. Clients that ask for the same path at the same
-- time share one request to the service. Without Redis, each answer comes from the service.
--
--   REDIS=redis://localhost:6379/0 rlhost cache.lua 8080 http://localhost:8000

local rl = require "runloop"
local http = require "runloop.http"

local cache = {}
cache.__index = cache

-- Makes a cache. `load(path)` returns the service's answer; `seconds` is how long it is kept.
function cache.new(db, load, seconds)
  return setmetatable({ db = db, load = load, seconds = seconds, loading = {}, hits = 0, loads = 0 }, cache)
end

-- Asks the service, once for all tasks that wait for the path. A failure is not kept.
local function load(self, path)
  local pending = self.loading[path]
  if pending then return pending:await() end
  pending = rl.future()
  self.loading[path] = pending
  -- This does not run in the task of the request, which ends if its client leaves.
  rl.task(function()
    local done, body, problem = pcall(self.load, path)
    self.loads = self.loads + 1
    if done and body then self.db:call("SET", "page:" .. path, body, "EX", self.seconds) end
    self.loading[path] = nil
    if done then pending:complete(body, problem) else pending:complete(nil, tostring(body)) end
  end)
  return pending:await()
end

-- Returns the answer for a path; or nil and the reason.
function cache:get(path)
  local body = self.db:call("GET", "page:" .. path)
  if not body then return load(self, path) end
  self.hits = self.hits + 1
  return body
end

-- Serves the cache by HTTP.
function cache:serve(port)
  return http.serve(port, function(request)
    local body, problem = self:get(request.path)
    if body then return body end
    return { status = 502, body = problem .. "\n" }
  end)
end

-- Loaded by a test, the file returns the class.
if ... ~= arg[1] or not arg[2] then return cache end

local service = arg[2]
local db = assert(require "runloop.redis".open(os.getenv "REDIS" or "localhost:6379"))
local server = assert(cache.new(db, function(path)
  local response, problem = http.get(service .. path, { timeout = 30 })
  if not response or response.status ~= 200 then return nil, problem or "the service says " .. response.status end
  return response.body
end, 60):serve(tonumber(arg[1])))
print("http://" .. server:address())
io.stdout:setvbuf "line"
