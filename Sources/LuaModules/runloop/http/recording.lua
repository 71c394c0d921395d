-- runloop.http.recording: what recordings tell of requests: method and path, how long, and what it came to. Never what is behind
-- the question mark, nor who asks.

local native = require "runloop.http.native"
local label, begins = native.label, native.begins

local M = { ends = native.ends }

-- The labels of what was recorded lately, by method and path.
local labels, count = {}, 0
local MOST <const> = 1000

-- Returns what `ends` gets; nil when nothing is recorded.
function M.begins(method, path)
  local of = labels[method]
  local number = begins(of and of[path])
  if number ~= false then return number end
  if count >= MOST then labels, count, of = {}, 0, nil end
  if not of then
    of = {}
    labels[method] = of
  end
  of[path] = label(method .. " " .. path)
  count = count + 1
  return begins(of[path])
end

-- The same for an address: without names and passwords in it.
function M.begins_at(method, url)
  return M.begins(method, (url:match "^[^?#]*":gsub("^(%a[%w+.-]*://)[^/]*@", "%1")))
end

return M
