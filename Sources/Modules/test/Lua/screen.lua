-- The contents of a terminal: a subset of the control sequences of VT100 and xterm that covers what programs use.

local Screen = {}
Screen.__index = Screen

local setmetatable, tonumber = setmetatable, tonumber
local concat, sub, byte = table.concat, string.sub, string.byte
local find, match = string.find,
  string.match

local function blank(columns)
  local row = {}
  for i = 1, columns do row[i] = " " end
  return row
end

local function clear_all(self)
  self.cells = {}
  for i = 1, self.rows do self.cells[i] = blank(self.columns) end
end

--- Returns an empty screen.
function Screen.new(rows, columns)
  local self = setmetatable({
    rows = rows, columns = columns, row = 1, column = 1, top = 1, bottom = rows, rest = "", tabs = 8,
  }, Screen)
  clear_all(self)
  return self
end

-- Scrolls up by `count` rows, or down if `count` is negative.
local function scroll(self, count)
  local from, to = self.top, self.bottom
  if count < 0 then from, to = to, from end
  for _ = 1, math.abs(count) do
    table.remove(self.cells, from)
    table.insert(self.cells, to, blank(self.columns))
  end
end

local function line_feed(self)
  if self.row == self.bottom then scroll(self, 1) elseif self.row < self.rows then self.row = self.row + 1 end
end

-- Returns the columns of a character: 2 for wide characters, 0 for combining ones.
local function width(code)
  if code >= 0x300 and code <= 0x36f or code >= 0x200b and code <= 0x200f or code >= 0xfe00 and code <= 0xfe0f then
    return 0
  end
  if code >= 0x1100 and (code <= 0x115f or code >= 0x2e80 and code <= 0xa4cf or code >= 0xac00 and code <= 0xd7a3
    or code >= 0xf900 and code <= 0xfaff or code >= 0xfe30 and code <= 0xfe6f or code >= 0xff00 and code <= 0xff60
    or code >= 0xffe0 and code <= 0xffe6 or code >= 0x1f300 and code <= 0x1faff
    or code >= 0x20000 and code <= 0x3fffd) then
    return 2
  end
  return 1
end

local function put(self, character)
  local columns = width(utf8.len(character) == 1 and utf8.codepoint(character) or 0xfffd)
  if columns == 0 then
    local before = self.column > 1 and self.column - 1 or 1
    self.cells[self.row][before] = self.cells[self.row][before] .. character
    return
  end
  if self.column + columns - 1 > self.columns then
    self.column = 1
    line_feed(self)
  end
  local row = self.cells[self.row]
  row[self.column] = character
  if columns == 2 then row[self.column + 1] = "" end
  self.column = self.column + columns
end

local function move(self, row, column)
  self.row = row < 1 and 1 or row > self.rows and self.rows or row
  self.column = column < 1 and 1 or column > self.columns and self.columns or column
end

local function erase(self, row, first, last)
  for i = first, last do self.cells[row][i] = " " end
end

local CONTROLS = {}

function CONTROLS.A(self, n) move(self, self.row - n, self.column) end
function CONTROLS.B(self, n) move(self, self.row + n, self.column) end
function CONTROLS.C(self, n) move(self, self.row, self.column + n) end
function CONTROLS.D(self, n) move(self, self.row, (self.column > self.columns and self.columns or self.column) - n) end
function CONTROLS.E(self, n) move(self, self.row + n, 1) end
function CONTROLS.F(self, n) move(self, self.row - n, 1) end
function CONTROLS.G(self, n) move(self, self.row, n) end
CONTROLS["`"] = CONTROLS.G
function CONTROLS.d(self, n) move(self, n, self.column) end
function CONTROLS.H(self, n, m) move(self, n, m or 1) end
CONTROLS.f = CONTROLS.H

function CONTROLS.J(self, _, _, kind)
  if kind == 0 or kind == 1 then
    CONTROLS.K(self, nil, nil, kind)
    for row = kind == 0 and self.row + 1 or 1, kind == 0 and self.rows or self.row - 1 do
      erase(self, row, 1, self.columns)
    end
  else
    clear_all(self)
  end
end

function CONTROLS.K(self, _, _, kind)
  local column = self.column > self.columns and self.columns or self.column
  erase(self, self.row, kind == 0 and column or 1, kind == 1 and column or self.columns)
end

function CONTROLS.X(self, n)
  local last = self.column + n - 1
  erase(self, self.row, self.column, last < self.columns and last or self.columns)
end

-- Removes `n` cells at `from` in the row of the cursor, and inserts as many blanks at `to`.
local function shift(self, n, from, to)
  if self.column > self.columns then return end
  for _ = 1, n < self.columns and n or self.columns do
    table.remove(self.cells[self.row], from)
    table.insert(self.cells[self.row], to, " ")
  end
end

function CONTROLS.P(self, n) shift(self, n, self.column, self.columns) end
CONTROLS["@"] = function(self, n) shift(self, n, self.columns, self.column) end

local function limited(self, n) return n < self.rows and n or self.rows end

function CONTROLS.S(self, n) scroll(self, limited(self, n)) end
function CONTROLS.T(self, n) scroll(self, -limited(self, n)) end

local function scroll_from_here(self, n)
  local top = self.top
  self.top = self.row
  scroll(self, n)
  self.top = top
end

function CONTROLS.L(self, n) if self.row <= self.bottom then scroll_from_here(self, -limited(self, n)) end end
function CONTROLS.M(self, n) if self.row <= self.bottom then scroll_from_here(self, limited(self, n)) end end

function CONTROLS.r(self, n, m)
  self.top, self.bottom = n, m and m > n and m <= self.rows and m or self.rows
  move(self, 1, 1)
end

function CONTROLS.s(self) self.saved = { self.row, self.column } end
function CONTROLS.u(self) if self.saved then move(self, self.saved[1], self.saved[2]) end end

-- Sets a mode of the terminal. Only the alternate screen, for programs that use the whole screen, changes the contents.
local function set_mode(self, mode, on)
  if mode ~= 47 and mode ~= 1047 and mode ~= 1049 then return end
  if on and not self.other then
    self.other = { cells = self.cells, row = self.row, column = self.column }
    clear_all(self)
  elseif not on and self.other then
    self.cells = self.other.cells
    if mode == 1049 then self.row, self.column = self.other.row, self.other.column end
    self.other = nil
  end
end

local function control(self, private, numbers, final)
  if private ~= "" then
    if private == "?" and (final == "h" or final == "l") then
      for mode in numbers:gmatch "%d+" do set_mode(self, tonumber(mode), final == "h") end
    end
    return
  end
  local first, second = numbers:match "^(%d*);?(%d*)"
  local n, m = tonumber(first), tonumber(second)
  local action = CONTROLS[final]
  if action then action(self, n and n > 0 and n or 1, m and m > 0 and m or nil, n or 0) end
end

local function escape(self, final)
  if final == "M" then
    if self.row == self.top then scroll(self, -1) elseif self.row > 1 then self.row = self.row - 1 end
  elseif final == "D" or final == "E" then
    if final == "E" then self.column = 1 end
    line_feed(self)
  elseif final == "7" then
    CONTROLS.s(self)
  elseif final == "8" then
    CONTROLS.u(self)
  elseif final == "c" then
    self.top, self.bottom = 1, self.rows
    clear_all(self)
    move(self, 1, 1)
  end
end

-- Processes one character or control sequence. Returns the beginning of the next sequence, or nil if this one is
-- incomplete.
local function step(self, text, at)
  local code = byte(text, at)
  if code == 27 then
    local second = sub(text, at + 1, at + 1)
    if second == "" then return nil end
    if second == "[" then
      local private, numbers, final, after = match(text, "^([<=>?]?)([%d;:]*)[ -/]*([@-~])()", at + 2)
      if final then
        control(self, private, numbers, final)
        return after
      end
      return #text - at < 64 and nil or at + 2
    elseif second == "]" or second == "P" or second == "_" or second == "^" then
      local _, bell = find(text, "\7", at + 2, true)
      local _, over = find(text, "\27\\", at + 2, true)
      local last = bell and over and (bell < over and bell or over) or bell or over
      return last and last + 1 or nil
    elseif find(second, "[%(%)%*%+#%%]") then
      return #text >= at + 2 and at + 3 or nil
    end
    escape(self, second)
    return at + 2
  elseif code == 13 then
    self.column = 1
  elseif code == 10 or code == 11 or code == 12 then
    line_feed(self)
  elseif code == 8 then
    self.column = self.column > 1 and (self.column > self.columns and self.columns or self.column) - 1 or 1
  elseif code == 9 then
    local column = (self.column - 1) // self.tabs * self.tabs + self.tabs + 1
    self.column = column > self.columns and self.columns or column
  elseif code >= 32 and code ~= 127 then
    local character = match(text, "^[\1-\127\194-\244][\128-\191]*", at)
    local size = code < 0x80 and 1 or code < 0xe0 and 2 or code < 0xf0 and 3 or 4
    if code >= 0xc2 and code <= 0xf4 and #text - at + 1 < size then return nil end
    character = character and sub(character, 1, size) or "?"
    put(self, utf8.len(character) == 1 and character or "?")
    return at + (utf8.len(character) == 1 and #character or 1)
  end
  return at + 1
end

--- Processes the output of a program.
function Screen:feed(text)
  text = self.rest .. text
  local at = 1
  while at <= #text do
    local after = step(self, text, at)
    if not after then break end
    at = after
  end
  self.rest = sub(text, at)
end

local Picture = { __name = "screen" }
Picture.__index = Picture

--- Returns all rows as a text, without the spaces at their ends and the empty rows at the end.
function Picture:text() return (concat(self, "\n"):gsub("\n+$", "")) end
Picture.__tostring = Picture.text

--- Returns the row that contains a text, and the column where it begins; nil if no row contains it.
function Picture:find(pattern, plain)
  for i = 1, #self do
    local from = find(self[i], pattern, 1, plain)
    if from then return i, (utf8.len(self[i], 1, from) or from) end
  end
end

--- Returns the present contents: an array of rows, with the place of the cursor.
function Screen:picture()
  local picture = { row = self.row, column = self.column > self.columns and self.columns or self.column }
  for i = 1, self.rows do picture[i] = concat(self.cells[i]):gsub("%s+$", "") end
  return setmetatable(picture, Picture)
end

return Screen
