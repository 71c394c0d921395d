-- rl.sandbox: what this process, its threads and its programs may do from now on.

local _, _, crossing = ...
local type, ipairs = type, ipairs
local unpack, integer_of = table.unpack, math.tointeger
local misuse = require "runloop.misuse"

local LISTS <const> = { "read", "write", "connect", "listen", "run", "env" }
local FIELDS <const> = {
  read = { "table", "boolean" }, write = { "table", "boolean" }, connect = { "table", "boolean" },
  listen = { "table", "boolean" }, run = { "table", "boolean" }, env = { "table", "boolean" }, modules = "boolean",
}

local function text_of(field, i, value)
  if (field == "listen" or field == "connect") and integer_of(value) then return ("%d"):format(value) end
  if type(value) ~= "string" or value:find "\0" then
    misuse.wrong("rl.sandbox", ("element %d of field '%s'"):format(i, field), "a string", value)
  end
  return value
end

local function sandbox(options)
  misuse.argument(options, "table", "rl.sandbox", 1)
  misuse.fields(options, FIELDS, "rl.sandbox")
  local words = {}
  local function add(kind, value) words[#words + 1], words[#words + 2] = kind, value end
  for _, field in ipairs(LISTS) do
    local value = options[field]
    if value == true then add(field, true) end
    for i, one in ipairs(value and value ~= true and value or {}) do add(field, text_of(field, i, one)) end
  end
  if options.modules then add("modules", true) end
  local done, message, code = crossing["rl.sandbox"](unpack(words))
  if not done then return nil, message, code end
  return done
end

return { sandbox = sandbox }
