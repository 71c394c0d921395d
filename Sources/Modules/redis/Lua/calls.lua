-- runloop.redis.calls: encodes commands, refuses some of them, and knows how long they may block; also the common calls
-- of databases, transactions and connections.

local misuse = require "runloop.misuse"
local shape = require "runloop.data.shape"
local Line = require "runloop.redis.line"

local type, select, ipairs, error = type, select, ipairs, error
local upper, format, find, tonumber = string.upper, string.format, string.find, tonumber
local concat, insert, max = table.concat, table.insert, math.max
local next, math_type, getmetatable = next, math.type, getmetatable
local raise, describe = misuse.raise, misuse.describe
local encode, encode_all = Line.encode, Line.encode_all
local note, NOTED, ended = shape.note, shape.NOTED, shape.ended

local calls = {}

-- Commands whose answer the server may delay.
local BLOCKS = {
  BLPOP = true, BRPOP = true, BLMOVE = true, BLMPOP = true, BRPOPLPUSH = true, BZPOPMIN = true, BZPOPMAX = true,
  BZMPOP = true, WAIT = true, WAITAOF = true,
}
-- Commands that change the connection, and the call of this module that replaces them; false if none does.
local INSTEAD = {
  SELECT = "connection", WATCH = "begin", UNWATCH = "begin", MULTI = "begin", EXEC = "begin", DISCARD = "begin",
  AUTH = "connection", HELLO = "connection", SUBSCRIBE = "subscribe", PSUBSCRIBE = "subscribe",
  UNSUBSCRIBE = "subscribe", PUNSUBSCRIBE = "subscribe", SSUBSCRIBE = "subscribe", SUNSUBSCRIBE = "subscribe",
  QUIT = "close", RESET = "connection", MONITOR = false, SYNC = false, PSYNC = false,
  -- The server does not answer this command.
  REPLCONF = false,
  ["CLIENT REPLY"] = false,
}

-- For each first word: the name of a command that neither blocks nor is refused, whatever its other words are. At most
-- KEPT of them.
local plain, plain_count = {}, 0
local KEPT = 1000

local function note_plain(first, name)
  if BLOCKS[name] or INSTEAD[name] ~= nil or name == "CLIENT" or find(name, "^XREAD") then return end
  if plain_count < KEPT then plain[first], plain_count = name, plain_count + 1 end
end

local function wrong_word(what, index, value)
  raise("%s: argument #%d must be a string or a number, got %s", what, index, describe(value))
end

-- Returns the bytes of a command; raises an error for a word that cannot be sent.
local function command(what, words, count)
  if count == 0 then raise("%s: argument #1 must be a command, got nothing", what) end
  if type(words[1]) ~= "string" then wrong_word(what, 1, words[1]) end
  local bytes, bad = encode(words, 1, count)
  if not bytes then wrong_word(what, bad, words[bad]) end
  return bytes
end
calls.command = command

-- Raises an error for a command that changes the connection. `is_own`: allows the commands that a reserved connection
-- serves.
local function refuse(what, words, is_own)
  local name = upper(words[1])
  if name == "CLIENT" and words[2] and upper(words[2]) == "REPLY" then name = "CLIENT REPLY" end
  local instead = INSTEAD[name]
  if instead == nil or is_own and instead and instead ~= "subscribe" and instead ~= "close" then return name end
  if not instead then raise("%s: %s needs a connection of its own, and is not offered", what, name) end
  raise("%s: %s belongs to one connection: use %s()", what, name, instead)
end

-- Returns the seconds for which the server may wait with its answer, or nil if the command does not block.
local function blocking_time(name, words, count)
  if name == "XREAD" or name == "XREADGROUP" then
    -- The scan begins after the names of a group and its consumer, and ends at STREAMS: these names, and the keys after
    -- STREAMS, may look like options.
    for i = name == "XREAD" and 2 or 5, count - 1 do
      local word = upper(words[i])
      if word == "BLOCK" then return (tonumber(words[i + 1]) or 0) / 1000 end
      if word == "STREAMS" then return nil end
    end
    return nil
  end
  if not BLOCKS[name] then return nil end
  if name == "WAIT" or name == "WAITAOF" then return (tonumber(words[count]) or 0) / 1000 end
  return tonumber(words[(name == "BLMPOP" or name == "BZMPOP") and 2 or count]) or 0
end

-- Returns how many words a list has: a nil between two words is an error, not the end.
local function length(words)
  local count = #words
  for key in next, words do if math_type(key) == "integer" and key > count then count = key end end
  return count
end

-- Returns the bytes of a list of commands, and their number.
local function commands(what, list, is_own)
  misuse.argument(list, "table", what, 1)
  local pieces = {}
  for index, words in ipairs(list) do
    if type(words) ~= "table" then
      raise("%s: entry %d must be a list of words, got %s", what, index, describe(words))
    end
    local count = length(words)
    local first = words[1]
    local bytes = type(first) == "string" and encode(words, 1, count)
    local name = bytes and upper(first)
    if not bytes or INSTEAD[name] ~= nil or name == "CLIENT" or BLOCKS[name] or find(name, "^XREAD") then
      -- The text for messages is made only if there may be an error.
      local here = format("%s: entry %d", what, index)
      bytes = command(here, words, count)
      local seconds = blocking_time(refuse(here, words, is_own), words, count)
      if seconds then raise("%s: %s blocks: use call()", here, first) end
    end
    pieces[index] = bytes
  end
  if #pieces == 0 then raise("%s: argument #1 must have an entry, got an empty list", what) end
  return concat(pieces), #pieces
end

-- The digests of scripts, for all databases of the thread.
local digests = setmetatable({}, { __mode = "k" })

local function script_words(what, keys, ...)
  local words = { "EVALSHA", "", #keys }
  for index, key in ipairs(keys) do
    if type(key) ~= "string" and type(key) ~= "number" then
      raise("%s: key %d must be a string or a number, got %s", what, index, describe(key))
    end
    words[#words + 1] = key
  end
  for i = 1, select("#", ...) do
    local argument = select(i, ...)
    if type(argument) ~= "string" and type(argument) ~= "number" then wrong_word(what, i + 2, argument) end
    words[#words + 1] = argument
  end
  return words
end

-- The position of the cursor in commands whose answers come in parts.
local SCANS = { SCAN = 2, SSCAN = 3, HSCAN = 3, ZSCAN = 3 }

local function scan(self, what, ask, ...)
  local words, count = { ... }, select("#", ...)
  misuse.argument(words[1], "string", what, 1)
  local name = upper(words[1])
  local place = SCANS[name]
  if not place then raise("%s: argument #1 must be SCAN, SSCAN, HSCAN or ZSCAN, got %s", what, describe(words[1])) end
  command(what, words, max(count, place - 1))
  insert(words, place, "0")
  local list, at, is_last = {}, 0, false
  local step = (name == "HSCAN" or name == "ZSCAN") and 2 or 1
  return function()
    while at >= #list do
      if is_last then return nil end
      local number = note(self, "rows", name)
      local _ <close> = NOTED
      local answer, message = ask(self, encode(words, 1, count + 1))
      ended(number, "rows", 0, answer and #answer[2] // step, message)
      if not answer then error(message, 0) end
      words[place], list, at = answer[1], answer[2], 0
      is_last = answer[1] == "0"
    end
    at = at + step
    if step == 1 then return list[at] end
    return list[at - 1], list[at]
  end
end

--- Adds the calls that send commands to a class. `noun` is "db", "tx" or "connection" in messages. `ask(self, bytes,
--- seconds)` returns an answer; `send(self, bytes, count)` the answers of several commands, and the problems.
function calls.give(class, noun, ask, send, is_own)
  local call, batch, script, rows = noun .. ":call", noun .. ":batch", noun .. ":script", noun .. ":rows"
  -- Sends a command that may block, or that is called for the first time.
  local function call_slowly(self, ...)
    local words, count = { ... }, select("#", ...)
    local bytes = command(call, words, count)
    local name = refuse(call, words, is_own)
    note_plain(words[1], name)
    local number, seconds = note(self, "call", name), blocking_time(name, words, count)
    local _ <close> = NOTED
    if not seconds or not number then return ended(number, "call", 0, ask(self, bytes, seconds)) end
    local waits = { waited = 0 }
    local value, message, code, details = ask(self, bytes, seconds, waits)
    return ended(number, "call", waits.waited, value, message, code, details)
  end
  function class:call(...)
    if getmetatable(self) ~= class then misuse.receiver(self, class, call) end
    local name = plain[(...)]
    if not name then return call_slowly(self, ...) end
    local bytes, bad = encode_all(...)
    if not bytes then wrong_word(call, bad, (select(bad, ...))) end
    local number = note(self, "call", name)
    local _ <close> = NOTED
    return ended(number, "call", 0, ask(self, bytes))
  end
  function class:batch(list)
    misuse.receiver(self, class, batch)
    local bytes, count = commands(batch, list, is_own)
    local number = note(self, "batch", list[1][1])
    local _ <close> = NOTED
    return ended(number, "answers", 0, send(self, bytes, count))
  end
  --- Runs a Lua script: by its digest, and by its text if the server does not know it yet.
  function class:script(text, keys, ...)
    misuse.receiver(self, class, script)
    misuse.argument(text, "string", script, 1)
    misuse.optional(keys, "table", script, 2)
    local words = script_words(script, keys or {}, ...)
    local number = note(self, "script", text)
    local _ <close> = NOTED
    local digest = digests[text] or require "runloop.crypto".hash("sha1", text, "hex")
    if digest then
      digests[text], words[2] = digest, digest
      local value, message, code, details = ask(self, encode(words, 1, #words))
      if not (details and details.code == "NOSCRIPT") then
        return ended(number, "call", 0, value, message, code, details)
      end
    end
    words[1], words[2] = "EVAL", text
    return ended(number, "call", 0, ask(self, encode(words, 1, #words)))
  end
  --- Iterates over the results of SCAN and its variants; HSCAN and ZSCAN return two values.
  function class:rows(...)
    misuse.receiver(self, class, rows)
    return scan(self, rows, ask, ...)
  end
  for _, name in ipairs { "query", "row", "value", "execute" } do
    local what = noun .. ":" .. name
    class[name] = function(self)
      misuse.receiver(self, class, what)
      raise("%s: redis databases have call(), not %s()", what, name)
    end
  end
end

--- Returns the bytes of a command that is kept for later.
function calls.kept(what, ...)
  local words, count = { ... }, select("#", ...)
  local bytes = command(what, words, count)
  refuse(what, words)
  return bytes
end

--- Returns the bytes of words that are known to be valid.
function calls.bytes(...) return encode({ ... }, 1, select("#", ...)) end

return calls
