-- Crawls the pages of one host, eight at a time, and keeps what it knows in SQLite. After `kill -9` the next start
-- resumes where it stopped, and fetches no finished page again.
--
--   rlhost crawler.lua pages.db http://localhost:8000/

local rl = require "runloop"
local http = require "runloop.http"
local url = require "runloop.url"
local sqlite = require "runloop.sqlite"

local PATH = arg[1] or error("usage: crawler.lua FILE URL", 0)
local START = assert(url.parse(arg[2] or error("usage: crawler.lua FILE URL", 0)))
local TASKS = 8

local db <close> = assert(sqlite.open(PATH))
assert(db:script [[
  create table if not exists pages (url text primary key, state text not null default 'new', status int, title text);
  create index if not exists pages_by_state on pages (state);
  update pages set state = 'new' where state = 'busy']])
assert(db:execute("insert or ignore into pages (url) values ($1)", tostring(START)))

-- Takes a page that no task has taken. The writer of the database runs one statement at a time.
local function take()
  return db:value [[update pages set state = 'busy'
    where url = (select url from pages where state = 'new' limit 1) returning url]]
end

-- Returns the links of a page that stay on the host.
local function links_of(page, body)
  local list = {}
  for reference in body:gmatch 'href="([^"#]*)' do
    local link = url.join(page, reference)
    local parsed = link and url.parse(link)
    if parsed and parsed.host == START.host and parsed.port == START.port then list[#list + 1] = link end
  end
  return list
end

-- Stores the links in one transaction: after a crash, a page is done with all its links, or not at all.
local function keep(page, response)
  local batch = { { "update pages set state = 'done', status = $2, title = $3 where url = $1", page,
    response and response.status, response and response.body:match "<title>(.-)</title>" } }
  for _, link in ipairs(response and links_of(page, response.body) or {}) do
    batch[#batch + 1] = { "insert or ignore into pages (url) values ($1)", link }
  end
  assert(db:batch(batch))
end

local busy, changed = 0, rl.condition()

local function work()
  while true do
    local page = take()
    if page then
      busy = busy + 1
      local response, problem = http.get(page, { timeout = 30 })
      keep(page, response)
      print(response and response.status or problem, page)
      busy = busy - 1
      changed:broadcast()
    elseif busy == 0 then
      return changed:broadcast()
    else
      changed:wait()
    end
  end
end

io.stdout:setvbuf "line"
local tasks = {}
for i = 1, TASKS do tasks[i] = rl.task(work) end
for _, task in ipairs(tasks) do task:await() end
print(("%d pages"):format(db:value "select count(*) from pages"))
