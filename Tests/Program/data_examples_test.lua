-- The examples with databases: crawler.lua, jobs.lua and cache.lua.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local http = require "runloop.http"
local postgres = require "runloop.postgres"
local process = require "runloop.process"
local redis = require "runloop.redis"
local sqlite = require "runloop.sqlite"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local EXAMPLES = ROOT .. "/docs/examples/"
local REAL = { real_time = true, timeout = 60 }

t.it("crawler.lua continues after kill -9, and fetches no page again", REAL, function()
  local PAGES, asked = 60, {}
  local site = t.truthy(http.serve("127.0.0.1:0", function(request)
    local number = tonumber(request.path:match "%d+" or "0")
    asked[number] = (asked[number] or 0) + 1
    rl.sleep(0.02)
    local links = {}
    for i = 1, 3 do links[i] = ('<a href="/page/%d#x">'):format((number * 3 + i) % PAGES) end
    return ("<title>page %d</title><a href=\"http://elsewhere.example/\">%s"):format(number, table.concat(links))
  end))
  t.finally(function() site:stop(0) end)
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  local file, start = path .. "/pages.db", "http://" .. site:address() .. "/page/0"
  local first = t.spawn { t.rlhost, EXAMPLES .. "crawler.lua", file, start }
  t.eventually(function() return select(2, first:output():gsub("\n", "")) >= 10 end, { within = 20 })
  first:kill "KILL"
  first:wait()
  local printed = {}
  for number in first:output():gmatch "200\t[^\n]*/page/(%d+)\n" do printed[tonumber(number)] = true end
  local second = t.spawn { t.rlhost, EXAMPLES .. "crawler.lua", file, start }
  t.equal(second:wait { within = 30 }, 0, second:output())
  t.truthy(second:output():find "60 pages\n")
  -- All results that were printed before the kill are in the file.
  for number in pairs(printed) do t.equal(asked[number], 1, "page " .. number) end
  for number = 0, PAGES - 1 do t.truthy(asked[number] >= 1 and asked[number] <= 2) end
  local db <close> = t.truthy(sqlite.open(file))
  t.equal(db:value "select count(*) from pages where state = 'done' and status = 200 and title is not null", 60)
end)

t.it("jobs.lua does each job once, although workers are killed", REAL, function()
  local server = t.server "postgres"
  local environment = { DATABASE_URL = server:url() }
  local function works() return t.spawn { t.rlhost, EXAMPLES .. "jobs.lua", "work", env = environment } end
  local workers = { works(), works(), works() }
  local texts = {}
  for i = 1, 30 do texts[i] = i % 3 == 0 and "sleep 0.05" or "job " .. i end
  local adder = t.spawn { t.rlhost, EXAMPLES .. "jobs.lua", "add", "sleep 60", env = environment,
    table.unpack(texts) }
  t.equal(adder:wait { within = 20 }, 0, adder:output())
  local db <close> = t.truthy(postgres.open(server:url()))
  local function count(which) return db:value("select count(*) from jobs where done is " .. which) end
  t.eventually(function() return count "not null" == 30 end, { within = 20 })
  -- A worker has the long job: when the worker ends, the job is free again.
  for _, worker in ipairs(workers) do worker:kill "KILL" end
  t.eventually(function()
    return db:execute [[update jobs set text = 'short' where id in
      (select id from jobs where done is null for update skip locked)]] == 1
  end, { within = 20 })
  local last = works()
  t.eventually(function() return count "null" == 0 end, { within = 20 })
  last:kill "KILL"
  local done = {}
  for _, worker in ipairs { workers[1], workers[2], workers[3], last } do
    for id in worker:output():gmatch "done\t(%d+)\n" do
      t.equal(done[id], nil)
      done[id] = true
    end
  end
end)

t.describe("cache.lua", function()
  local cache = dofile(EXAMPLES .. "cache.lua")

  -- Returns a cache over a fake, and the fake.
  local function slow(seconds, answer)
    local fake = redis.fake { latency = 0.001 }
    local db = t.truthy(redis.open(fake))
    t.finally(function() db:close() end)
    return cache.new(db, function(path)
      rl.sleep(seconds)
      return (answer or function() return "answer to " .. path end)(path)
    end, 60), fake
  end

  t.it("asks the service once for all tasks, and again after a minute", function()
    local it = slow(2)
    local tasks = {}
    for i = 1, 100 do tasks[i] = rl.task(function() return it:get "/a" end) end
    for i = 1, 100 do t.equal(tasks[i]:await(), "answer to /a") end
    t.equal({ it.loads, it:get "/a", it.hits }, { 1, "answer to /a", 1 })
    rl.sleep(61)
    t.equal({ it:get "/a", it.loads }, { "answer to /a", 2 })
  end)

  t.it("keeps no failure, and works without Redis", function()
    local is_down = true
    local it, fake = slow(1, function()
      if is_down then error "down" end
      return "up"
    end)
    local nothing, problem = it:get "/"
    t.equal(nothing, nil)
    t.truthy(problem:find "down")
    is_down = false
    fake:stop()
    t.equal(it:get "/", "up")
    fake:start()
    rl.sleep(2)
    t.equal({ it:get "/", it:get "/" }, { "up", "up" })
    t.equal({ it.loads, it.hits }, { 3, 1 })
  end)

  t.it("serves the answers by HTTP", function()
    local it = slow(1)
    local server = t.truthy(it:serve(0))
    t.finally(function() server:stop(0) end)
    t.equal(http.get("http://" .. server:address() .. "/x").body, "answer to /x")
  end)
end)
