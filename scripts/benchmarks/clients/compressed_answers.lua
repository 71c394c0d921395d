-- Rows of `scripts/bench clients`: the processor time of compressed answers of http.serve, beside nginx with gzip. Both
-- serve the same JSON of 1 kB to 1 MB at a Unix socket. Without nginx there are no rows.

local net, process, fs = require "runloop.net", require "runloop.process", require "runloop.fs"
local json, rl = require "runloop.json", require "runloop"

local SCALE <const> = tonumber(arg[1]) or 1
local SIZES <const> = { { "1 kB", 1024, 20000 }, { "32 kB", 32768, 2000 }, { "1 MB", 1 << 20, 60 } }

if #(rl.blocking(function() return io.popen("command -v nginx"):read "a" end)) == 0 then return end

local directory = assert(fs.temporary_directory())
local cleanup <close> = setmetatable({}, { __close = function() fs.remove(directory, { recursive = true }) end })

local items = {}
for i = 1, 12000 do
  items[i] = { id = i, name = "item " .. i * 7919 % 1000, price = i % 97 / 4, tags = { "a", "b" .. i % 9 } }
end
local document = json.encode(items)
for _, size in ipairs(SIZES) do fs.write(("%s/%d.json"):format(directory, size[2]), (document:sub(1, size[2]))) end

fs.write(directory .. "/nginx.conf", ([[
daemon off;
worker_processes 1;
pid %s/nginx.pid;
error_log %s/error.log;
events { worker_connections 256; }
http {
  access_log off;
  keepalive_requests 10000000;
  types { application/json json; }
  gzip on; gzip_comp_level 1; gzip_types application/json; gzip_min_length 1;
  server { listen unix:%s/nginx.socket; root %s; }
}
]]):gsub("%%s", directory) .. "")
fs.write(directory .. "/server.lua", [[
local http = require "runloop.http"
local texts = {}
for _, size in ipairs { 1024, 32768, 1048576 } do
  local file = assert(io.open(("%s/%d.json"):format(arg[1], size)))
  texts[("/%d.json"):format(size)] = file:read "a"
  file:close()
end
assert(http.serve("unix:" .. arg[1] .. "/rlhost.socket", { compress = { least = 1 } }, function(request)
  return { body = texts[request.path], headers = { ["content-type"] = "application/json" } }
end))
]])
-- Only root may run nginx as another user, and the files belong to this user.
if process.run { "id", "-u" }.output == "0\n" then
  fs.write(directory .. "/nginx.conf", "user root;\n" .. fs.read(directory .. "/nginx.conf"))
end

local servers = {
  rlhost = assert(process.start { arg[-1] or "rlhost", directory .. "/server.lua", directory }),
  nginx = assert(process.start { "nginx", "-p", directory, "-c", directory .. "/nginx.conf", errors = "null" }),
}

local function connected(name)
  for _ = 1, 200 do
    local stream = net.connect(("unix:%s/%s.socket"):format(directory, name))
    if stream then return stream end
    rl.sleep(0.02)
  end
  error(name .. " does not answer", 0)
end

-- Reads an answer whose head has been read, and returns its length.
local function body_length(stream, head)
  local length = head:lower():match "\ncontent%-length: (%d+)"
  if length then return #stream:read_exactly(math.tointeger(tonumber(length))) end
  local count = 0
  while true do
    local size = tonumber(stream:read_line(), 16)
    if size > 0 then count = count + #stream:read_exactly(size) end
    stream:read_line()
    if size == 0 then return count end
  end
end

local function ask(stream, size)
  stream:write(("GET /%d.json HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"):format(size))
  local head = assert(stream:read_until "\r\n\r\n")
  assert(head:lower():find("content-encoding: gzip", 1, true), head)
  return body_length(stream, head)
end

-- Nanoseconds on the processor, of a process and its children.
local function busy(program)
  local total = 0
  local pids = { program:pid() }
  for child in (io.open(("/proc/%d/task/%d/children"):format(pids[1], pids[1])):read "a"):gmatch "%d+" do
    pids[#pids + 1] = tonumber(child)
  end
  for _, pid in ipairs(pids) do
    for _, thread in ipairs(assert(fs.list(("/proc/%d/task"):format(pid)))) do
      local name = type(thread) == "table" and thread.name or thread
      total = total + tonumber(io.open(("/proc/%d/task/%s/schedstat"):format(pid, name)):read "n")
    end
  end
  return total
end

-- The number of clients that a busy server has at a time.
local CLIENTS <const> = 16

local function ask_all(streams, size, count)
  local group <close> = rl.group()
  for _, stream in ipairs(streams) do
    group:task(function()
      for _ = 1, count // CLIENTS do ask(stream, size) end
    end)
  end
  group:wait()
end

local streams = { rlhost = {}, nginx = {} }
for name, list in pairs(streams) do
  for i = 1, CLIENTS do list[i] = connected(name) end
end
for _, size in ipairs(SIZES) do
  local count, cost = math.max(2 * CLIENTS, math.floor(size[3] * SCALE)), { rlhost = math.huge, nginx = math.huge }
  -- Both servers are measured in turns, so that other programs on the machine slow both down alike.
  for _ = 1, 5 do
    for name, list in pairs(streams) do
      ask_all(list, size[2], CLIENTS)
      local before = busy(servers[name])
      ask_all(list, size[2], count)
      cost[name] = math.min(cost[name], (busy(servers[name]) - before) / (count // CLIENTS * CLIENTS) / 1e9)
    end
  end
  print(("an answer of %s JSON compressed, nginx gzip 1\t%.9f\t%.9f\t%g"):format(size[1], cost.rlhost, cost.nginx, 1.1))
end
for name, list in pairs(streams) do
  for _, stream in ipairs(list) do stream:abort() end
  servers[name]:signal "KILL"
  servers[name]:wait()
end
