-- The message for a method that an object does not have: it names the method that is probably meant, or all methods.

local misuse = require "runloop.misuse"
local next, type = next, type
local sub, sort, concat = string.sub, table.sort, table.concat

-- The names of similar methods in other libraries, each with our methods, the likeliest first.
local END = { "invalidate", "close", "cancel" }
local KILL = { "cancel", "invalidate", "close" }
local START = { "fire", "task", "run" }
local RESULT = { "await", "join", "wait", "receive" }
local SEND = { "post", "send", "signal" }
local meant = {
  cancel = END, stop = END, close = END, destroy = END, remove = END, clear = END, unref = END, invalidate = END,
  kill = KILL, abort = KILL, start = START, again = START, spawn = START, wait = RESULT, get = RESULT,
  result = RESULT, recv = RESULT, send = SEND, write = SEND, put = SEND, push = SEND, notify = SEND,
  isvalid = { "is_valid" },
}

-- `methods` has the kind's methods, besides those of its metatable.
local function message(kind, name, methods)
  local there, names = {}, {}
  for other, method in next, methods do
    if type(method) == "function" and sub(other, 1, 2) ~= "__" then
      there[other] = true
      names[#names + 1] = other .. "()"
    end
  end
  sort(names)
  local best
  for _, other in next, meant[name] or {} do best = best or there[other] and other end
  best = best or misuse.nearest(name, there)
  local owner = kind == "rl.notifications" and kind .. " has" or kind .. "s have"
  return ("%s %s, not %s()"):format(owner, best and best .. "()" or concat(names, ", "), name)
end

return { message = message }
