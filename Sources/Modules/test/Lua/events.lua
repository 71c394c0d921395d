-- The events that a worker sends to the runner, as tables written in Lua; and the marks that end the output of each
-- test.

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

--- Returns a value as Lua source.
function events.text_of(value)
  local out = {}
  write_value(out, value)
  return concat(out)
end

local held, marks, secret = "", 0, ""

--- Sets the text that each mark contains, so that tests cannot write a mark by accident.
function events.begin(text) secret = text end

--- Writes a mark after the output of a test, so that the runner knows to which test the output belongs. Returns the
--- mark's number, and whether the test has closed its standard output.
function events.mark()
  marks = marks + 1
  pcall(stdout.flush, stdout)
  return marks, system.mark(format("\0rlhost:%s:%d\0", secret, marks))
end

--- Sends an event. With `wait`, the event is sent together with the next one, which saves a system call.
function events.emit(event, wait)
  held = held .. string_pack("<s4", events.text_of(event))
  if not wait then
    system.emit(held)
    held = ""
  end
end

return events
