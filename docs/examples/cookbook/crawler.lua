-- crawler.lua URL [PAGES]: follows all links of a site, 100 at once, and lists those that lead nowhere. It reads
-- robots.txt first and obeys it: Allow and Disallow, where the longest matching rule counts, and Crawl-delay.
local rl, http, url = require "runloop", require "runloop.http", require "runloop.url"

local ROBOT, AT_ONCE = "rlhost-crawler", 100
if not arg[1] then io.stderr:write "usage: rlhost crawler.lua URL [PAGES]\n" os.exit(64) end
local most = tonumber(arg[2]) or 10000
local site = assert(url.join(arg[1], "/"))
local client = http.client { connections = AT_ONCE, timeout = 30, headers = { ["user-agent"] = ROBOT } }

-- Returns the rules for this robot, or else those for all robots.
local function read_robots(text)
  local groups, group, in_rules = {}, nil, true
  for line in text:gmatch "[^\r\n]+" do
    local field, value = line:gsub("#.*", ""):lower():match "^%s*([%w-]+)%s*:%s*(.-)%s*$"
    if field == "user-agent" then
      group, in_rules = not in_rules and group or {}, false -- consecutive user-agent lines share their rules
      groups[value] = groups[value] or group
    elseif group and (value or "") ~= "" then
      in_rules = true
      if field == "crawl-delay" then group.delay = tonumber(value) end
      local pattern = line:match ":%s*([^%s#]*)":gsub("[%^%%%.%[%]%+%-%?%(%)]", "%%%0"):gsub("%*", ".*")
      if field == "allow" or field == "disallow" then
        group[#group + 1] = { pattern = "^" .. pattern, length = #value, allow = field == "allow" }
      end
    end
  end
  return groups[ROBOT] or groups["*"] or {}
end

local answer = client:get(site .. "robots.txt")
local robots = answer and answer.status == 200 and read_robots(answer.body) or {}

local function is_allowed(address)
  local path, best = address:sub(#site), { length = -1, allow = true }
  for _, rule in ipairs(robots) do
    local is_longer = rule.length > best.length or rule.length == best.length and rule.allow
    if is_longer and path:find(rule.pattern) then best = rule end
  end
  return best.allow
end

local places, group = rl.mutex(robots.delay and 1 or AT_ONCE), rl.group()
local seen, broken = {}, {}
local found, forbidden = 0, 0
local visit

local function add(address, from)
  address = (url.join(from, address) or address):gsub("#.*", "")
  if seen[address] or address:sub(1, #site) ~= site or found == most then return end
  seen[address] = true
  if not is_allowed(address) then forbidden = forbidden + 1 return end
  found = found + 1
  group:task(visit, address, from)
end

function visit(address, from)
  local place <close> = places:lock()
  rl.sleep(robots.delay or 0)
  local page, problem = client:get(address)
  if not page or page.status >= 400 then
    broken[#broken + 1] = ("%s  %s  from %s"):format(page and page.status or problem, address, from)
  elseif (page.headers["content-type"] or ""):find "^text/html" and page.url:sub(1, #site) == site then
    for link in page.body:gmatch "<[aA]%s[^>]-[hH][rR][eE][fF]%s*=%s*[\"']([^\"']*)" do
      add(link:gsub("&amp;", "&"), page.url)
    end
  end
end

local began = rl.now()
add(arg[1], site)
group:wait()
table.sort(broken)
for _, line in ipairs(broken) do print(line) end
print(("%d pages in %.1f s, %d broken, %d forbidden"):format(found, rl.now() - began, #broken, forbidden))
