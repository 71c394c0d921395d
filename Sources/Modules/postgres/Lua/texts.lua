-- runloop.postgres.texts: the statements of a text. Scripts and batches are transactions, so that statements which end
-- a transaction must be found before anything is sent: a commit cannot be undone.

local find, sub, lower = string.find, string.sub, string.lower

local texts = {}

local CONTROL = {
  begin = true, start = true, commit = true, ["end"] = true, rollback = true, abort = true, savepoint = true,
  release = true,
}
local WORD, BLANK = "^[%a_\x80-\xff][%w_$\x80-\xff]*", "^%s+"

-- The functions below return the position behind what begins at a position.

local function behind_comment(text, at)
  local depth = 0
  repeat
    local from, to = find(text, "[*/][*/]", at)
    if not from then return #text + 1 end
    local mark = sub(text, from, to)
    -- In "//*", the comment begins at the second byte.
    at = (mark == "//" or mark == "**") and to or to + 1
    depth = depth + (mark == "/*" and 1 or mark == "*/" and -1 or 0)
  until depth == 0
  return at
end

-- `has_escapes`: a backslash hides the next byte.
local function behind_quotes(text, at, has_escapes)
  if not has_escapes then return (find(text, "'", at + 1, true) or #text) + 1 end
  at = at + 1
  while true do
    local from = find(text, "['\\]", at)
    if not from then return #text + 1 end
    -- A literal goes on behind a doubled quote, and on a further line.
    local _, to = find(text, "^''", from)
    if not to then _, to = find(text, "^'[ \t]*[\r\n]%s*'", from) end
    if sub(text, from, from) == "\\" then to = from + 1 end
    if not to then return from + 1 end
    at = to + 1
  end
end

local function behind_dollars(text, at)
  local _, to, tag = find(text, "^(%$[%a_\x80-\xff]?[%w_\x80-\xff]*%$)", at)
  if not to or find(tag, "^%$%d") then return at + 1 end
  local _, last = find(text, tag, to + 1, true)
  return (last or #text) + 1
end

-- Returns the position behind the next part of a text, and the part in lower case if it is a word or a mark.
local function next_part(text, at, all_escapes)
  local _, to = find(text, WORD, at)
  if to then
    local word = lower(sub(text, at, to))
    if word == "e" and sub(text, to + 1, to + 1) == "'" then return behind_quotes(text, to + 1, true) end
    return to + 1, word
  end
  local mark = sub(text, at, at)
  if mark == "'" then return behind_quotes(text, at, all_escapes) end
  if mark == '"' then return (find(text, '"', at + 1, true) or #text) + 1, '"' end
  if mark == "$" then return behind_dollars(text, at) end
  if mark == "-" and sub(text, at + 1, at + 1) == "-" then return (find(text, "[\r\n]", at) or #text) + 1 end
  if mark == "/" and sub(text, at + 1, at + 1) == "*" then return behind_comment(text, at) end
  _, to = find(text, BLANK, at)
  if to then return to + 1 end
  _, to = find(text, "^%d[%w_.]*", at)
  return (to or at) + 1, mark
end

-- Returns why a statement may not be a part of a transaction by itself: a word for messages; nil if it may be.
local function refused(words)
  local first = words[1]
  if CONTROL[first] then return first end
  if first == "prepare" and words[2] == "transaction" then return "prepare transaction" end
  if first == "copy" and (words.stdin or words.stdout) then return "copy" end
end

-- Whether the words begin the definition of a function, whose body may be a list of statements.
local function is_routine(words)
  local kind = words[2] == "or" and words[4] or words[2]
  return words[1] == "create" and (kind == "function" or kind == "procedure")
end

--- Returns the word of the first statement that a script or a batch must not contain: one that controls a transaction,
--- or a copy to or from the client. nil: there is none. `all_escapes`: each quoted text may have escapes.
function texts.refused(text, all_escapes)
  local at, words, last = 1, {}, nil
  local parentheses, blocks = 0, 0
  while at <= #text do
    local part
    at, part = next_part(text, at, all_escapes)
    if part == ";" and parentheses == 0 and blocks == 0 then
      local found = refused(words)
      if found then return found end
      words = {}
    elseif part then
      if #words < 4 then words[#words + 1] = part end
      words[part] = true
      if part == "(" then parentheses = parentheses + 1 end
      if part == ")" then parentheses = parentheses - 1 end
      if part == "atomic" and last == "begin" and is_routine(words) or part == "case" and blocks > 0 then
        blocks = blocks + 1
      elseif part == "end" and blocks > 0 then
        blocks = blocks - 1
      end
      last = part
    end
  end
  return refused(words)
end

--- Returns the same for a text that the server accepts only if it has one statement.
function texts.refused_alone(text)
  local word = text:match "^%s*(%a+)"
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
  local word = text:match "^%s*(%a+)"
  return not (word and PLAIN[lower(word)]) or find(lower(text), "returning", 1, true) ~= nil
end

--- Whether a statement controls a transaction.
function texts.is_control(text) return CONTROL[texts.refused_alone(text)] end

return texts
