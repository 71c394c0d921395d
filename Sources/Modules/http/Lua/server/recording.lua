-- runloop.http.recording: what recordings tell of requests: method and path, how long, and what it came to. Never what is behind
-- the question mark, nor who asks.

local native = require "runloop.http.native"
local label, begins = native.label, native.begins

-- The labels of what was recorded lately, by method and path.
local labels, count = {}, 0
local MOST <const> = 1000

local M = { ends = native.ends, labels = labels }

-- What stands for a method and a path in recordings.
function M.label(method, path)
  if count >= MOST then
    count = 0
    for of in pairs(labels) do labels[of] = nil end
  end
  local of = labels[method]
  if not of then
    of = {}
    labels[method] = of
  end
  local number = of[path]
  if not number then
    number = label(method .. " " .. path)
    of[path] = number
    count = count + 1
  end
  return number
end

-- Returns what `ends` gets; nil when nothing is recorded.
function M.begins(method, path) return begins(M.label(method, path)) end

-- The same for an address: without names and passwords in it.
function M.begins_at(method, url)
  return M.begins(method, (url:match "^[^?#]*":gsub("^(%a[%w+.-]*://)[^/]*@", "%1")))
end

return M
