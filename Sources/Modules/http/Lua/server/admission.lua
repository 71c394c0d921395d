-- runloop.http.admission: passes a client's requests to libcurl when there is room, and queues the others. In libcurl,
-- the time to cancel a queued request grows with the number of queued requests.

local M = {}

-- First come, first served. A cancelled request leaves a gap in the queue.
local function queue() return { first = 1, last = 0 } end

local function push(queue, exchange)
  queue.last = queue.last + 1
  queue[queue.last] = exchange
  exchange.queue, exchange.place = queue, queue.last
end

local function pop(queue)
  while queue.first <= queue.last do
    local exchange = queue[queue.first]
    queue[queue.first] = nil
    queue.first = queue.first + 1
    if exchange then
      exchange.queue = nil
      return exchange
    end
  end
  queue.first, queue.last = 1, 0
end

local Admission = {}
Admission.__index = Admission

-- Many requests share an HTTP/2 connection. libcurl must have these requests at the same time, and may queue some of
-- them.
local SHARED <const> = 256

-- `start(exchange)` starts an admitted request. Limits: connections for each host, and in all; 0: none.
function M.new(for_host, in_all, start)
  return setmetatable({
    for_host = for_host > 0 and for_host or math.huge, in_all = in_all > 0 and in_all or math.huge,
    hosts = {}, waiting = queue(), active = 0, start = start,
  }, Admission)
end

local function admit(self, exchange)
  exchange.has_room = true
  local most = self.in_all
  if exchange.is_shared and most < SHARED then most = SHARED end
  if self.active >= most then return push(self.waiting, exchange) end
  self.active = self.active + 1
  exchange.is_admitted = true
  self.start(exchange)
end

-- Starts the request now, or when there is room.
function Admission:enter(exchange, url, unix)
  local key = (url:match "^(%a[%w+.-]*://[^/?#]*)" or url):lower() .. (unix or "")
  local host = self.hosts[key]
  if not host then
    host = { key = key, active = 0, queue = queue() }
    self.hosts[key] = host
  end
  exchange.host, exchange.is_shared = host, key:find "^https:" ~= nil
  local most = self.for_host
  if exchange.is_shared and most < SHARED then most = SHARED end
  if host.active >= most then return push(host.queue, exchange) end
  host.active = host.active + 1
  admit(self, exchange)
end

-- The request has ended, or was cancelled. The next request takes its connection.
function Admission:leave(exchange)
  local host = exchange.host
  if exchange.queue then
    exchange.queue[exchange.place] = nil
    exchange.queue = nil
  end
  if exchange.is_admitted then
    exchange.is_admitted = false
    self.active = self.active - 1
    local following = pop(self.waiting)
    if following then admit(self, following) end
  end
  if not exchange.has_room then return end
  exchange.has_room = false
  host.active = host.active - 1
  local following = pop(host.queue)
  if following then
    host.active = host.active + 1
    admit(self, following)
  elseif host.active == 0 then
    self.hosts[host.key] = nil
  end
end

-- Calls a function with each queued request.
function Admission:each_waiting(fn)
  local all = {}
  local function take(from)
    for place = from.first, from.last do all[#all + 1] = from[place] end
  end
  take(self.waiting)
  for _, host in pairs(self.hosts) do take(host.queue) end
  for _, exchange in ipairs(all) do fn(exchange) end
end

return M
