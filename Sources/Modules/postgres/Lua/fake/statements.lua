-- runloop.postgres.fake.statements: statements that the fake answers itself: transactions, cursors and channels. The
-- function of the test gets all other statements.

local rl = require "runloop"
local shape = require "runloop.data.shape"
local messages = require "runloop.postgres.fake.messages"

local type, ipairs, pcall, tostring = type, ipairs, pcall, tostring
local format, upper, lower, max = string.format, string.upper, string.lower, math.max

local statements = {}

-- Results are tables: `rows`, a `tag`, or a `problem` with its `state`.

local function refuse(problem, state) return { problem = tostring(problem), state = state or "XX000" } end

-- Returns the first word of a statement.
local function word_of(text) return upper(text:match "^[%s(]*(%a*)") end

local function tag_of(text, count)
  local word = word_of(text)
  if word == "INSERT" then return format("INSERT 0 %d", count) end
  if word == "CREATE" or word == "DROP" or word == "ALTER" then
    return word .. " " .. upper(text:match "^%s*%a+%s+(%a+)" or "")
  end
  return format("%s %d", word == "WITH" and "SELECT" or word, count)
end

-- Asks the function of the test, in a task that a cancel request can end.
local function ask(fake, client, text, parameters)
  local done = rl.future()
  local task = shape.background(function()
    local is_good, first, second, third = pcall(fake._fn, text, parameters)
    if not is_good then return done:complete(refuse(first)) end
    if type(first) == "table" then return done:complete { rows = first, tag = tag_of(text, #first) } end
    if math.type(first) == "integer" then return done:complete { tag = tag_of(text, first) } end
    done:complete(refuse(second or "the function of the fake has returned neither rows nor a count", third))
  end)
  client.stop = function()
    task:cancel()
    done:complete(refuse("canceling statement due to user request", "57014"))
  end
  local result = done:await()
  client.stop = nil
  return result
end

-- Transactions --------------------------------------------------------------------------------------------------------

local CONTROL = {}

local function begin(client)
  if client.state == "I" then client.state = "T" end
  return { tag = "BEGIN" }
end
CONTROL.BEGIN = begin
function CONTROL.START(client)
  begin(client)
  return { tag = "START TRANSACTION" }
end

function CONTROL.COMMIT(client)
  local has_failed = client.state == "E"
  client.state, client.cursors = "I", {}
  return { tag = has_failed and "ROLLBACK" or "COMMIT" }
end
CONTROL.END = CONTROL.COMMIT

function CONTROL.ROLLBACK(client, text)
  if lower(text):find "^%s*rollback%s+to" then
    client.state = "T"
  else
    client.state, client.cursors = "I", {}
  end
  return { tag = "ROLLBACK" }
end

function CONTROL.SAVEPOINT() return { tag = "SAVEPOINT" } end
function CONTROL.RELEASE() return { tag = "RELEASE" } end
function CONTROL.DEALLOCATE() return { tag = "DEALLOCATE" } end
function CONTROL.SET() return { tag = "SET" } end

-- Cursors -------------------------------------------------------------------------------------------------------------

function CONTROL.DECLARE(client, text, parameters)
  local name, query = text:match "^%s*%a+%s+([%w_]+)%s.-[%s]for%s+(.*)$"
  if not name then return refuse("the fake does not know this cursor", "0A000") end
  local result = ask(client.fake, client, query, parameters)
  if not result.rows then return result.problem and result or refuse("the statement returns no rows", "42P11") end
  client.cursors[name] = { rows = result.rows, at = 0 }
  return { tag = "DECLARE CURSOR" }
end

function CONTROL.FETCH(client, text)
  local count, name = text:match "^%s*%a+%s+(%d+)%s+from%s+([%w_]+)"
  local cursor = client.cursors[name]
  if not cursor then return refuse(format('cursor "%s" does not exist', name or "?"), "34000") end
  local rows = { columns = cursor.rows.columns }
  for at = cursor.at + 1, math.min(cursor.at + tonumber(count), #cursor.rows) do rows[#rows + 1] = cursor.rows[at] end
  cursor.at = cursor.at + #rows
  return { rows = rows, tag = "FETCH " .. #rows }
end

function CONTROL.CLOSE(client, text)
  client.cursors[text:match "^%s*%a+%s+([%w_]+)" or ""] = nil
  return { tag = "CLOSE CURSOR" }
end

-- Channels ------------------------------------------------------------------------------------------------------------

local function channel_of(text)
  local name = text:match '^%s*%a+%s+"(.*)"%s*$'
  return name and name:gsub('""', '"') or lower(text:match "^%s*%a+%s+([%w_*]+)" or "")
end

function CONTROL.LISTEN(client, text)
  client.channels[channel_of(text)] = true
  return { tag = "LISTEN" }
end

function CONTROL.UNLISTEN(client, text)
  client.channels[channel_of(text)] = nil
  return { tag = "UNLISTEN" }
end

--- Runs a statement, and returns its result.
function statements.run(fake, client, text, parameters)
  local word = word_of(text)
  if client.state == "E" and word ~= "ROLLBACK" and word ~= "COMMIT" and word ~= "END" then
    return refuse("current transaction is aborted, commands ignored until end of transaction block", "25P02")
  end
  if word == "COPY" then return refuse("the fake does not copy", "0A000") end
  local control = CONTROL[word]
  if control then return control(client, text, parameters) end
  local words = lower(text)
  if words:find "^%s*select%s+pg_backend_pid%(%)%s*$" then
    return { rows = { { client.id }, columns = { "pg_backend_pid" } }, tag = "SELECT 1" }
  end
  if words:find "^%s*select%s+pg_notify%(%$1,%s*%$2%)%s*$" then
    fake:_notify(parameters[1], parameters[2])
    return { rows = { { "" }, columns = { "pg_notify" } }, tag = "SELECT 1" }
  end
  return ask(fake, client, text, parameters)
end

--- Returns the number of parameters that a statement has.
function statements.count(text)
  local most = 0
  for number in text:gsub("'[^']*'", ""):gmatch "%$(%d+)" do most = max(most, tonumber(number)) end
  return most
end

--- Returns a result as bytes, without the columns of rows that were described before.
function statements.answer(client, result, is_described)
  if result.problem then
    if client.state == "T" then client.state = "E" end
    return messages.refusal(result.problem, result.state)
  end
  if not result.rows then return messages.complete(result.tag) end
  local columns, lines = messages.rows(result.rows)
  return (is_described and "" or columns) .. table.concat(lines) .. messages.complete(result.tag)
end

return statements
