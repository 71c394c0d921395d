-- runloop.terminal: the script's terminal: its size, keys, screen, colours and progress bars.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"

local terminal = {}
local raise, describe = misuse.raise, misuse.describe
local type, pairs, ipairs, tostring = type, pairs, ipairs, tostring
local setmetatable, concat = setmetatable, table.concat
local format, rep, sub = string.format, string.rep, string.sub
local find, match, gsub = string.find, string.match, string.gsub
local max, min, utf8_offset = math.max, math.min, utf8.offset

-- Seconds that an Escape waits for the rest of a sequence before it counts as the key.
local ESCAPE = 0.05
-- Seconds between two checks whether a program has returned the terminal.
local LENT = 0.05
local PASTE_ON, PASTE_OFF = "\27[?2004h", "\27[?2004l"
local MOUSE_ON, MOUSE_OFF = "\27[?1002h\27[?1006h", "\27[?1006l\27[?1002l"
local SCREEN_ON, SCREEN_OFF = "\27[?1049h\27[H\27[2J", "\27[?1049l"
local CURSOR_OFF, CURSOR_ON = "\27[?25l", "\27[?25h"

local Terminal = objects.class("runloop.terminal.Terminal", { __name = "terminal", __stays = true })

local function self_of(self, name)
  if self._fd < 0 then raise("terminal:%s: it is closed", name) end
  return self
end

function terminal.open()
  local fd, message, code = native.open()
  -- A shortage of descriptors or memory passes; it does not mean that there is no terminal.
  if code == "EMFILE" or code == "ENFILE" or code == "ENOMEM" then return nil, message, code end
  if not fd then
    return nil, "ENXIO: this process has no terminal" .. (code == "ENXIO" and "" or " (" .. message .. ")"), "ENXIO"
  end
  return setmetatable({ _fd = fd, _undo = {}, _handlers = {}, _raws = {}, _resting = {}, _keys = {},
    _readers = 0 }, Terminal)
end

function Terminal:size() return native.size(self_of(self, "size")._fd) end
function Terminal:fd() return self_of(self, "fd")._fd end

function Terminal:write(...)
  self_of(self, "write")
  local parts = { ... }
  for index, part in ipairs(parts) do
    if type(part) ~= "string" and type(part) ~= "number" then
      raise("terminal:write: argument #%d must be a string, got %s", index, describe(part))
    end
  end
  return native.write(self._fd, concat(parts))
end

-- Modes of the screen -------------------------------------------------------------------------------------------------
-- Each of these functions returns an object: closing it ends the mode. The end of the process ends the mode in any
-- case.

local Guard = { __name = "guard" }
Guard.__index = Guard
function Guard:close()
  if self.done then return end
  self.done = true
  self.undo()
end
Guard.__close = Guard.close
objects.methods(Guard, "guard")

local function farewell(self)
  local texts, greetings = {}, {}
  for _, mark in ipairs(self._undo) do
    if not greetings[mark.on] then
      greetings[mark.on], greetings[#greetings + 1] = true, mark.on
      table.insert(texts, 1, mark.off)
    end
  end
  native.farewell(self._fd, concat(texts), concat(greetings))
end

-- Writes one sequence now, and another when the last object of this mode is closed.
local function switch(self, on, off)
  local mark = { on = on, off = off }
  native.write(self._fd, on)
  self._undo[#self._undo + 1] = mark
  farewell(self)
  return setmetatable({ undo = function()
    local is_needed = false
    for index = #self._undo, 1, -1 do
      if self._undo[index] == mark then
        table.remove(self._undo, index)
      elseif self._undo[index].on == on then
        is_needed = true
      end
    end
    if self._fd >= 0 then
      if not is_needed then native.write(self._fd, off) end
      farewell(self)
    end
  end }, Guard)
end

local RAW = { mouse = "any", signals = "any", paste = "any" }
function Terminal:raw(options)
  self_of(self, "raw")
  options = misuse.options(options, RAW, "terminal:raw", 1)
  internals.refuse_keys("terminal:raw", 0)
  local fine, message, code = native.raw(self._fd, options.signals or false)
  if not fine then return nil, message, code end
  local paste = options.paste ~= false and switch(self, PASTE_ON, PASTE_OFF)
  local mouse = options.mouse and switch(self, MOUSE_ON, MOUSE_OFF)
  -- The newest object that is still open decides about signals.
  local raws, mark = self._raws, { signals = options.signals or false }
  raws[#raws + 1] = mark
  return setmetatable({ undo = function()
    if mouse then mouse:close() end
    if paste then paste:close() end
    local newest = raws[#raws]
    for index, each in ipairs(raws) do
      if each == mark then
        table.remove(raws, index)
        break
      end
    end
    if self._fd < 0 then return end
    if not raws[1] then native.cook(self._fd) elseif newest == mark then native.raw(self._fd, raws[#raws].signals) end
  end }, Guard)
end

local function raw_self_of(self, name)
  self_of(self, name)
  if not self._raws[1] then
    raise("terminal:%s: call terminal:raw() first, so that the terminal is always restored", name)
  end
  return self
end
function Terminal:alternate_screen() return switch(raw_self_of(self, "alternate_screen"), SCREEN_ON, SCREEN_OFF) end
function Terminal:hide_cursor() return switch(raw_self_of(self, "hide_cursor"), CURSOR_OFF, CURSOR_ON) end
function Terminal:move(row, column)
  for index, value in ipairs { row or false, column or false } do
    if not math.tointeger(value) then
      raise("terminal:move: argument #%d must be an integer, got %s", index, describe(value or nil))
    end
  end
  return self:write(format("\27[%d;%dH", row, column))
end
function Terminal:clear() return self:write "\27[H\27[2J" end

-- Keys ----------------------------------------------------------------------------------------------------------------

-- A key handler can be added to modes. If a mode has several, the newest gets the keys: a dialogue, for example, gets
-- them before the code that opened it.
local Handler = objects.class("runloop.terminal.KeyHandler", {
  __name = "key handler", __stays = true, __item = "_port",
})

-- Wakes the ports that have rested while a handler was busy.
local function wake(self)
  local ports = self._resting
  self._resting = {}
  for port in pairs(ports) do if port:is_valid() then port:set_events "r" end end
end

local start

local function handle(handler)
  local done <close> = setmetatable({}, { __close = function(_, failure)
    handler._busy = false
    -- If an error has ended the task, another task handles the next key.
    if failure then start(handler) end
    if not handler._busy then wake(handler._terminal) end
  end })
  while handler._queue[1] do handler._fn(table.remove(handler._queue, 1), handler._terminal) end
end

-- Keys are handled one after the other, even if the function waits.
function start(handler)
  if handler._busy or not handler._queue[1] then return end
  handler._busy = true
  rl.task(handle, handler)
end

-- Returns the handler that gets the keys in the running mode.
local function newest(self)
  local loop = rl.current()
  local mode, handler = loop:mode() or "default", nil
  for _, each in ipairs(self._handlers) do
    if loop:contains(each._port, mode) then handler = each end
  end
  return handler
end

local function deliver(self, keys)
  local handler = newest(self)
  -- If no handler is left for the rest of a sequence, the next call of `read_key` returns that rest.
  local queue = handler and handler._queue or self._keys
  for _, key in ipairs(keys) do queue[#queue + 1] = key end
  if handler then start(handler) end
end

function Handler:invalidate()
  if not self._valid then return end
  self._valid = false
  self._port:invalidate()
  local handlers = self._terminal._handlers
  for index, handler in ipairs(handlers) do
    if handler == self then
      table.remove(handlers, index)
      break
    end
  end
  -- The next handler gets the keys that this one has not handled.
  local queue = self._queue
  self._queue = {}
  if queue[1] then deliver(self._terminal, queue) end
  wake(self._terminal)
end
Handler.__close = Handler.invalidate
function Handler:is_valid() return self._valid end
objects.methods(Handler, "handler")

-- While a program has the terminal, the kernel stops every other process that reads from it. So the port rests until
-- the program has ended.
local function await_return(port)
  local loop, modes, timer = rl.current(), {}, nil
  for _, mode in ipairs(loop:modes()) do if loop:contains(port, mode) then modes[#modes + 1] = mode end end
  port:set_events ""
  timer = rl.timer {
    delay = LENT, interval = LENT, name = "terminal", modes = modes, keeps_alive = false,
    callback = function()
      if port:is_valid() and native.is_lent() then return end
      timer:invalidate()
      if port:is_valid() then port:set_events "r" end
    end,
  }
end

-- Returns whether no key may be read at the moment. After a hang-up, reading only finds the end.
local function holds_back(self, port, events)
  if find(events, "h", 1, true) then return false end
  if native.is_lent() then
    await_return(port)
    return true
  end
  local handler = newest(self)
  if not handler or not handler._busy then return false end
  self._resting[port] = true
  port:set_events ""
  return true
end

-- Reads the next keys, or the rest of a paste. The function reads at most one key from the kernel, so that the next
-- handler gets the later keys.
local LONGEST_KEY = 16
local function take_key(self, port, events)
  if holds_back(self, port, events) then return end
  local decoder, taken = self._decoder, 0
  while true do
    local bytes = native.read(self._fd, taken < LONGEST_KEY and 1 or 4096)
    if bytes == "" then self:close() end
    if not bytes or bytes == "" then break end
    taken = taken + #bytes
    if self._escape then
      self._escape:invalidate()
      self._escape = nil
    end
    local keys = decoder:feed(bytes)
    if keys[1] then return deliver(self, keys) end
  end
  if self._fd >= 0 and decoder:is_inside() and not self._escape then
    self._escape = rl.timer {
      delay = ESCAPE, name = "escape", modes = { rl.current():mode() or "default", "common" },
      callback = function()
        self._escape = nil
        deliver(self, decoder:flush())
      end,
    }
  end
end

local function listen(self, fn)
  self._decoder = self._decoder or native.decoder()
  local port = rl.fd_port { fd = self._fd, name = "keys",
    callback = function(port, events) take_key(self, port, events) end }
  local handler = setmetatable({ _terminal = self, _port = port, _fn = fn, _queue = {}, _valid = true }, Handler)
  internals.set_subject(handler, "key handler " .. objects.made_at())
  table.insert(self._handlers, handler)
  return handler
end

function Terminal:key_handler(fn)
  self_of(self, "key_handler")
  misuse.argument(fn, "function", "terminal:key_handler", 1)
  return listen(self, fn)
end

function Terminal:on_key(fn)
  self_of(self, "on_key")
  misuse.argument(fn, "function", "terminal:on_key", 1)
  local handler = listen(self, fn)
  rl.current():add(handler._port, "common")
  return handler
end

-- Reads as many keys as there are tasks that wait in `read_key`. All other keys stay in the kernel, for handlers and
-- programs.
local function stop_reading(self)
  if #self._keys < self._readers or not self._reader then return end
  self._reader:invalidate()
  self._reader = nil
end

local function read_for_tasks(self)
  self._reader = self:on_key(function(key)
    self._keys[#self._keys + 1] = key
    self._came:signal()
    stop_reading(self)
  end)
end

function Terminal:read_key(timeout)
  self_of(self, "read_key")
  misuse.optional(timeout, "seconds", "terminal:read_key", 1)
  self._came = self._came or objects.condition "terminal:read_key"
  local limit = timeout and rl.now() + timeout
  self._readers = self._readers + 1
  local done <close> = setmetatable({}, { __close = function()
    self._readers = self._readers - 1
    stop_reading(self)
  end })
  while #self._keys == 0 do
    if self._fd < 0 then return nil end
    if not self._reader then read_for_tasks(self) end
    local heard <close> = require "runloop.waiting_modes"(self._reader._port)
    local woken, reason = self._came:wait(limit and max(0, limit - rl.now()))
    if not woken and #self._keys == 0 then return nil, reason end
  end
  return table.remove(self._keys, 1)
end
function Terminal:keys() return function() return self:read_key() end end

function Terminal:on_resize(fn)
  self_of(self, "on_resize")
  misuse.argument(fn, "function", "terminal:on_resize", 1)
  return require "runloop.process".on_signal("WINCH", function()
    -- A program that has the terminal draws on it. Another signal comes when the program ends.
    if self._fd < 0 or native.is_lent() then return end
    local rows, columns = self:size()
    if rows then fn(rows, columns, self) end
  end)
end

function Terminal:close()
  if self._fd < 0 then return end
  for index = #self._handlers, 1, -1 do
    self._handlers[index]._queue = {}
    self._handlers[index]:invalidate()
  end
  if self._escape then self._escape:invalidate() end
  native.cook(self._fd)
  native.close(self._fd)
  self._fd = -1
  if self._came then self._came:broadcast() end
end
Terminal.__close = Terminal.close
function Terminal:__tostring() return self._fd < 0 and "terminal (closed)" or "terminal" end
objects.methods(Terminal, "terminal")

-- Text ----------------------------------------------------------------------------------------------------------------

function terminal.width(text)
  misuse.argument(text, "string", "terminal.width", 1)
  return native.width(text)
end

-- Returns how many colours are worth using: 0, 8, 256 or 16777216.
function terminal.colors(fd)
  if fd ~= nil and math.type(fd) ~= "integer" then
    raise("terminal.colors: argument #1 must be a descriptor, got %s", describe(fd))
  end
  local name, depth = os.getenv "TERM" or "", os.getenv "COLORTERM" or ""
  local is_plain = (os.getenv "NO_COLOR" or "") ~= "" or name == "dumb" or name == ""
  if is_plain or not native.is_terminal(fd or 1) then return 0 end
  if depth == "truecolor" or depth == "24bit" or find(name, "-direct", 1, true) then return 16777216 end
  return find(name, "256color", 1, true) and 256 or 8
end

local STYLES = {
  bold = 1, dim = 2, italic = 3, underline = 4, reverse = 7,
  black = 30, red = 31, green = 32, yellow = 33, blue = 34, magenta = 35, cyan = 36, white = 37,
  bright_black = 90, bright_red = 91, bright_green = 92, bright_yellow = 93,
  bright_blue = 94, bright_magenta = 95, bright_cyan = 96, bright_white = 97,
}

-- style("bold red", text): returns the text in colour if standard output shows colours, and plain otherwise.
function terminal.style(styles, text)
  misuse.argument(styles, "string", "terminal.style", 1)
  local numbers = {}
  for word in styles:gmatch "%S+" do
    local background = match(word, "^on_(.+)$")
    local number = STYLES[background or word]
    if not number or background and number < 30 then
      raise("terminal.style: unknown style '%s' (there are: bold, dim, italic, underline, reverse, "
        .. "colours such as red and bright_red, on_red)", word)
    end
    numbers[#numbers + 1] = background and number + 10 or number
  end
  text = tostring(text)
  if #numbers == 0 or terminal.colors() == 0 then return text end
  return "\27[" .. concat(numbers, ";") .. "m" .. text .. "\27[0m"
end

-- Progress ------------------------------------------------------------------------------------------------------------

local Progress = objects.class("runloop.terminal.Progress", { __name = "progress" })

local function span(seconds)
  if not (seconds >= 0 and seconds < 1e9) then return "?" end
  seconds = seconds // 1 | 0
  if seconds >= 3600 then return format("%d:%02d:%02d", seconds // 3600, seconds // 60 % 60, seconds % 60) end
  return format("%d:%02d", seconds // 60, seconds % 60)
end

-- Returns the beginning of a text that fits into the given number of columns.
local function cut(text, columns)
  text = sub(text, 1, columns * 16)
  while text ~= "" and native.width(text) > columns do text = sub(text, 1, (utf8_offset(text, -1) or #text) - 1) end
  return text
end

local function draw(self)
  if not self._shows then return end
  local _, columns = native.size(2)
  columns = columns and columns > 0 and columns or 80
  local took = rl.now() - self._began
  local right, bar = "", ""
  local total, done = self._total, self._done
  if total then
    local share = total > 0 and max(0, min(1, done / total)) or 1
    if share ~= share then share = 0 end
    right = format(" %3d %%  %s", share * 100 // 1 | 0, self._over and span(took)
      or (share > 0.02 or took > 2) and share > 0 and "-" .. span(took / share - took) or "")
    local room = columns - 1 - native.width(self._text) - #right - 3
    if room >= 8 then
      local filled = share * room // 1 | 0
      bar = " [" .. rep("#", filled) .. rep(" ", room - filled) .. "]"
    end
  else
    right = format(" %s %s  %s", ({ "|", "/", "-", "\\" })[self._turn % 4 + 1], done, span(took))
    self._turn = self._turn + 1
  end
  -- A line that wraps cannot be overwritten by the next one.
  local text = bar == "" and cut(self._text, max(0, columns - 1 - #right)) or self._text
  native.write(2, "\r" .. text .. bar .. right .. "\27[K" .. (self._over and "\n" or ""))
end

-- A line ending or a tabulator would break the bar's line.
local function one_line(text) return (gsub(text, "[\n\r\t\v\f]", " ")) end

local PROGRESS = { total = "number", text = "string" }

-- If standard error is not a terminal, the bar writes just one line, at its end.
function terminal.progress(options)
  misuse.argument(options, "table", "terminal.progress", 1)
  misuse.fields(options, PROGRESS, "terminal.progress")
  local self = setmetatable({
    _total = options.total, _text = one_line(options.text or ""), _done = 0, _turn = 0, _began = rl.now(),
    _shows = native.is_terminal(2) and os.getenv "TERM" ~= "dumb",
  }, Progress)
  if self._shows then
    self._timer = rl.timer {
      delay = 0.1, interval = 0.1, name = "progress", keeps_alive = false,
      callback = function() draw(self) end,
    }
    rl.current():add(self._timer, "common")
    draw(self)
  end
  return self
end
local function amount(what, value)
  if type(value) ~= "number" or value ~= value then
    raise("progress:%s: argument #1 must be a number, got %s", what, describe(value))
  end
  return value
end
function Progress:set(done) self._done = amount("set", done) end
function Progress:add(more) self._done = self._done + amount("add", more == nil and 1 or more) end
function Progress:set_text(text)
  misuse.argument(text, "string", "progress:set_text", 1)
  self._text = one_line(text)
end
-- Writes lines to standard error, above the bar.
function Progress:write(text)
  misuse.argument(text, "string", "progress:write", 1)
  if not match(text, "\n$") then text = text .. "\n" end
  if not self._shows or self._over then return native.write(2, text) end
  native.write(2, "\r\27[K" .. text)
  draw(self)
end
function Progress:finish()
  if self._over then return end
  self._over = true
  if self._timer then self._timer:invalidate() end
  if self._shows then draw(self) else native.write(2, format("%s: %s%s in %s\n", self._text, self._done,
    self._total and " of " .. self._total or "", span(rl.now() - self._began))) end
end
Progress.__close = Progress.finish
objects.methods(Progress, "progress")

return terminal
