-- runloop.json: the Lua half of the codec, which is written in C.

local native = ...
local misuse = require "runloop.misuse"
local OPTIONS = { indent = true, sort = true }
local json = native.codec(function(text, shows, value)
  local unknown = text:match "^json%.encode: unknown field '(.*)'$"
  if unknown then text = text .. misuse.hint(unknown, OPTIONS) end
  if shows then text = text .. ", got " .. misuse.describe(value) end
  -- The text is an argument of the format, since it may contain format characters.
  misuse.raise("%s", text)
end)

-- Returns an iterator over the lines of a source.
local function lines_of(source, options)
  if type(source) == "function" then return source end
  local lines = require("runloop.objects").method(source, "lines")
  if not lines then misuse.wrong("json.lines", "argument #1", "a stream, a file or an iterator of lines", source) end
  if options == nil then return lines(source) end
  -- A file takes formats.
  if type(options) ~= "table" and not io.type(source) then
    misuse.wrong("json.lines", "argument #2", "a table of options", options)
  end
  return lines(source, options)
end

function json.lines(source, options)
  local following = lines_of(source, options)
  local number = 0
  return function()
    while true do
      local line = following()
      if line == nil then return nil end
      number = number + 1
      if type(line) ~= "string" then misuse.wrong("json.lines", "line " .. number, "a string", line) end
      -- Blank lines keep connections alive, and many files end with one.
      if line:find "[^ \t\r\n]" then
        local value, problem = json.decode(line)
        if problem then misuse.raise("json.lines: line " .. number .. ": " .. problem:gsub("^line 1, ", "")) end
        return value
      end
    end
  end
end

return json
