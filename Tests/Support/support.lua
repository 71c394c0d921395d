-- Functions that several of these tests use.

local t = require "runloop.test"
local net = require "runloop.net"

local support = {}

-- Returns the error of a call that has to fail, without the position.
function support.problem_of(fn, ...)
  local is_good, message = pcall(fn, ...)
  t.equal(is_good, false)
  return (message:gsub("^[^:]+:%d+: ", ""))
end

function support.raises(text, fn, ...)
  local failed, message = pcall(fn, ...)
  t.falsy(failed, "no error")
  t.truthy(tostring(message):find(text, 1, true), "expected '" .. text .. "' in: " .. tostring(message))
end

-- Fails unless the check succeeds within five real seconds.
function support.soon(check) t.eventually(function() return (pcall(check)) end) end

-- Returns an HTTP server's answer to these bytes, until it ends the connection or `seconds` have passed.
function support.raw(server, bytes, seconds)
  local near, far = net.memory()
  server:accept(far)
  near:write(bytes)
  local answer = {}
  while true do
    local piece = near:read(65536, { timeout = seconds or 5 })
    if not piece then break end
    answer[#answer + 1] = piece
  end
  near:abort()
  return table.concat(answer)
end

function support.status_of(answer) return tonumber(answer:match "^HTTP/1%.1 (%d+) ") end

-- "2026-03-29 01:00", of UTC, in seconds since 1970.
function support.utc(text)
  local year, month, day = text:match "^(%d+)-(%d+)-(%d+) "
  local hour, minute = text:match " (%d+):(%d+)$"
  -- Days of the civil calendar, without os.time, which knows the local time only.
  local y, m = tonumber(year), tonumber(month)
  if m <= 2 then y = y - 1 end
  local of_year = (153 * (m + (m > 2 and -3 or 9)) + 2) // 5 + day - 1
  local days = y // 400 * 146097 + y % 400 * 365 + y % 400 // 4 - y % 400 // 100 + of_year - 719468
  return days * 86400 + hour * 3600 + minute * 60
end

-- Checks that the cost of each item does not grow with their number: `many` items cost less than `times` as much as
-- `few`. `cost(count)` returns seconds of the processor. The best of three tries counts: on a busy machine the caches
-- may be full of other programs' data.
function support.scales(cost, few, many, times)
  cost(few // 8)
  local tries = {}
  for try = 1, 3 do
    local less, more = cost(few), cost(many)
    if more < times * less then return end
    tries[try] = ("%.4f s, %.4f s"):format(less, more)
  end
  t.fail(table.concat(tries, "; "))
end

-- A directory for files, which is removed after the test.
function support.directory()
  local path = os.tmpname()
  os.remove(path)
  os.execute("mkdir " .. path)
  return path, setmetatable({}, { __close = function() os.execute("rm -rf " .. path) end })
end

function support.write(path, text, mode)
  local file <close> = assert(io.open(path, mode or "w"))
  file:write(text)
end

-- Returns the reports of a watcher until it is quiet, as "created a; changed b". Quiet means no event for twice its
-- latency; the second check, in a further pass, sees events that arrived while a busy machine did not let this process
-- run.
function support.told(watcher, directory)
  local parts, quiet = {}, 0
  while quiet < 2 do
    local changes = watcher:next(quiet == 0 and 0.1 or 0.03)
    quiet = changes and 0 or quiet + 1
    for _, change in ipairs(changes or {}) do
      parts[#parts + 1] = change.kind .. " " .. change.path:sub(#directory + 2)
        .. (change.from and " from " .. change.from:sub(#directory + 2) or "") .. (change.is_directory and "/" or "")
    end
  end
  return table.concat(parts, "; ")
end

return support
