-- runloop.http.recording: requests in recordings: method and path, duration, and whether they failed. Queries,
-- passwords and the client's address are left out.

local native = require "runloop.http.native"
local label, begins = native.label, native.begins

-- The labels of recent requests, by method and path.
local labels, count = {}, 0
local MOST <const> = 1000

local M = { ends = native.ends, labels = labels }

-- Returns the number of the label for a method and a path.
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

-- Returns the argument for `ends`; nil if nothing is recorded.
function M.begins(method, path) return begins(M.label(method, path)) end

-- Does the same for a URL, without the user and password in it.
function M.begins_at(method, url)
  return M.begins(method, (url:match "^[^?#]*":gsub("^(%a[%w+.-]*://)[^/]*@", "%1")))
end

return M
