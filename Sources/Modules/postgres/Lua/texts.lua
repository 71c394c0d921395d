-- runloop.postgres.texts: finds out from the words of a statement what it does.

local native = require "runloop.postgres.addresses".native

local find, lower, match = string.find, string.lower, string.match

local texts = {}

local CONTROL = {
  begin = true, start = true, commit = true, ["end"] = true, rollback = true, abort = true, savepoint = true,
  release = true,
}

--- Returns the word of the first statement that a script or a batch must not contain, see texts.c.
texts.refused = native.refused

--- Returns the word that is refused in a text that the server accepts only if it has one statement.
function texts.refused_alone(text)
  local word = match(text, "^%s*(%a+)")
  word = word and lower(word)
  if word and not CONTROL[word] and word ~= "prepare" and word ~= "copy" then return nil end
  return texts.refused(text)
end

-- Statements of these kinds have no columns, unless they contain the word "returning".
local PLAIN = {
  insert = true, update = true, delete = true, merge = true, create = true, drop = true, alter = true, truncate = true,
  set = true, grant = true, revoke = true, comment = true, lock = true, analyze = true, refresh = true, notify = true,
}

--- Whether a statement may have columns.
function texts.may_have_columns(text)
  local word = match(text, "^%s*(%a+)")
  return not (word and PLAIN[lower(word)]) or find(lower(text), "returning", 1, true) ~= nil
end

--- Whether a statement controls a transaction.
function texts.is_control(text) return CONTROL[texts.refused_alone(text)] end

return texts
