-- follow.lua FILE URL: posts the lines that are appended to a log file to a webhook, in order, and tries again until
-- the webhook accepts them. FILE.position keeps the place, so nothing is lost by a restart, or a rotation to FILE.1.
local rl, fs, http, json = require "runloop", require "runloop.fs", require "runloop.http", require "runloop.json"
local log = require "runloop.log"

local path, url = arg[1], arg[2]
if not url then io.stderr:write "usage: rlhost follow.lua FILE URL\n" os.exit(64) end
local LINES, BYTES = 100, 256 << 10 -- limits of a request

local saved = fs.read(path .. ".position")
local place = saved and json.decode(saved) or { inode = 0, offset = 0 }
local file

-- Opens the file that was read last, which a rotation may have renamed; otherwise the present file, from its beginning.
local function open()
  if file then file:close() end
  for _, name in ipairs { path, path .. ".1" } do
    local found = fs.stat(name)
    if found and found.inode == place.inode then return io.open(name, "rb") end
  end
  local found = fs.stat(path)
  place = { inode = found and found.inode or 0, offset = 0 }
  return io.open(path, "rb")
end

-- Returns the next complete lines, and the offset after them.
local function next_lines()
  local lines, offset, bytes = {}, place.offset, 0
  if not file then return lines end
  if file:seek "end" < offset then offset = 0 end -- the file was truncated
  file:seek("set", offset)
  while #lines < LINES and bytes < BYTES do
    local line = file:read "L"
    if not line or line:sub(-1) ~= "\n" then break end -- its writer has not finished it
    bytes = bytes + #line
    lines[#lines + 1] = utf8.len(line) and line:sub(1, -2) or line:sub(1, -2):gsub("[\x80-\xff]", "?")
  end
  return lines, offset + bytes
end

local function post(lines)
  local backoff = rl.backoff { first = 0.5, most = 60 }
  while true do
    local answer, problem = http.post(url, { json = { file = path, lines = json.array(lines) }, timeout = 30 })
    if answer and answer.status // 100 == 2 then return end
    log.warning("not accepted, trying again", { reason = problem or answer.status, lines = #lines })
    rl.sleep(answer and tonumber(answer.headers["retry-after"]) or 0)
    backoff:wait()
  end
end

local watcher = assert(fs.watch(path, { while_writing = true }))
file = open()
while true do
  local now = fs.stat(path) -- before the last read: once another file has the name, this one is complete
  local lines, offset = next_lines()
  if #lines > 0 then
    post(lines)
    place.offset = offset
    assert(fs.write(path .. ".position", json.encode(place)))
  elseif now and now.inode ~= place.inode then
    place.inode = 0
    file = open()
  else
    watcher:next()
  end
end
