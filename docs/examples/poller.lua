-- Requests many URLs side by side, and tries failed ones again, with longer and longer pauses.
--
--   rlhost poller.lua URL...    (or one URL in each line of standard input)

local rl = require "runloop"
local http = require "runloop.http"

local TRIES, FIRST_WAIT = 4, 0.1
local client = http.client { connections = 6, timeout = 10 }

-- Returns the answer and the number of tries, or nil and the last error.
local function ask(url)
  local problem
  for try = 1, TRIES do
    local answer, message = client:get(url)
    if answer and answer.status < 500 then return answer, try end
    problem = message or answer.status .. " " .. answer.reason
    if try < TRIES then rl.sleep(FIRST_WAIT * 2 ^ (try - 1)) end
  end
  return nil, problem
end

local urls = { table.unpack(arg) }
if #urls == 0 then for url in io.lines() do urls[#urls + 1] = url end end

local good, date = 0, rl.now()
local group <close> = rl.group()
for _, url in ipairs(urls) do
  group:task(function()
    local answer, detail = ask(url)
    if answer then
      good = good + 1
      print(("%d  %s  %d bytes, try %d"):format(answer.status, url, #answer.body, detail))
    else
      print(("---  %s  %s"):format(url, detail))
    end
  end)
end
group:wait()
client:close()
io.stderr:write(("%d of %d, in %.1f seconds\n"):format(good, #urls, rl.now() - date))
