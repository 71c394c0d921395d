-- What a worker tells the runner: tables, written as Lua. And where the output of each test ends.

local system = ...

local type, next, pcall = type, next, pcall
local format, concat, string_pack = string.format, table.concat, string.pack
local stdout = io.stdout

local events = {}

local function write_value(out, value)
  local kind = type(value)
  if kind == "table" then
    out[#out + 1] = "{"
    for key, field in next, value do
      out[#out + 1] = "["
      write_value(out, key)
      out[#out + 1] = "]="
      write_value(out, field)
      out[#out + 1] = ","
    end
    out[#out + 1] = "}"
  else
    out[#out + 1] = format("%q", value)
  end
end

--- A value as Lua has it.
function events.text_of(value)
  local out = {}
  write_value(out, value)
  return concat(out)
end

local held, marks, secret = "", 0, ""

--- `text` is in each mark, so that tests cannot write one by accident.
function events.begin(text) secret = text end

--- Behind what a test has printed: so the runner knows whose output it is. Answers the mark's number, and whether the test has
--- closed its standard output.
function events.mark()
  marks = marks + 1
  pcall(stdout.flush, stdout)
  return marks, system.mark(format("\0rlhost:%s:%d\0", secret, marks))
end

--- Tells an event; with `wait`, together with the next one: one system call less.
function events.emit(event, wait)
  held = held .. string_pack("<s4", events.text_of(event))
  if not wait then
    system.emit(held)
    held = ""
  end
end

return events
