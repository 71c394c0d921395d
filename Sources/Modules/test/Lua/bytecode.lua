-- The executable parts of a Lua file: its lines with code, its functions, and the branches from one line to another.

local bytecode = {}
local unpack, byte, setmetatable, loadfile = string.unpack, string.byte, setmetatable, loadfile
local pcall, string, pairs = pcall, string, pairs

-- Reads a function as string.dump of Lua 5.4 writes it, with the line of each instruction. The first instruction of a
-- function with variable arguments only prepares the arguments, and does not count as a line of the script.

local Reader = {}
Reader.__index = Reader

function Reader:byte()
  self.at = self.at + 1
  return byte(self.text, self.at - 1)
end

-- A size has seven bits in each byte; the last byte has the highest bit set.
function Reader:size()
  local value = 0
  while true do
    local b = self:byte()
    value = value << 7 | b & 0x7f
    if b & 0x80 ~= 0 then return value end
  end
end

function Reader:string()
  local size = self:size()
  if size > 0 then self.at = self.at + size - 1 end
end

function Reader:skip(n) self.at = self.at + n end

-- Branches ------------------------------------------------------------------------------------------------------------

local JMP, FIRST_TEST, LAST_TEST = 56, 57, 67
local FORLOOP, FORPREP, TFORLOOP = 73, 74, 77

-- Returns the two places at which a branching instruction may continue; nil for all other instructions. Places count
-- from 0.
local function successors(code, at)
  local operation, wide = code[at] & 0x7f, code[at] >> 15
  if operation >= FIRST_TEST and operation <= LAST_TEST then return at + 1, at + 2 end
  if operation == FORPREP then return at + 1, at + 2 + wide end
  if operation == FORLOOP or operation == TFORLOOP then return at + 1, at + 1 - wide end
end

-- Returns the line to which a branch from line `from` leads, if it leads to the instruction `at`. Returns nil if that
-- is line `from` itself: a line hook cannot see such a branch.
local function line_reached(code, lines, at, from)
  for _ = 1, 100 do
    if not code[at] then return nil end
    if lines[at] ~= from then return lines[at] end
    if code[at] & 0x7f ~= JMP then return nil end
    at = at + 1 + (code[at] >> 7) - 0xffffff
  end
end

-- Adds, for each line that decides, the lines that may follow it.
local function add_branches(code, lines, branches)
  for at = 0, #code do
    local first, second = successors(code, at)
    for _, target in pairs { first, second } do
      local from = lines[at]
      local to = line_reached(code, lines, target, from)
      if to then
        branches[from] = branches[from] or {}
        branches[from][to] = true
      end
    end
  end
end

-- A function ----------------------------------------------------------------------------------------------------------

function Reader:code(found)
  self:string()
  local defined = self:size()
  local last_defined = self:size()
  self:skip(1)
  local takes_more = self:byte() ~= 0
  self:skip(1)
  local code, code_lines = {}, {}
  for i = 0, self:size() - 1 do
    code[i] = unpack("<I4", self.text, self.at)
    self:skip(4)
  end
  for _ = 1, self:size() do
    local kind = self:byte()
    if kind == 0x13 or kind == 0x03 then self:skip(8) elseif kind == 0x04 or kind == 0x14 then self:string() end
  end
  self:skip(self:size() * 3)
  for _ = 1, self:size() do self:code(found) end
  local steps = self:size()
  local first = self.at
  self:skip(steps)
  local absolute = {}
  for _ = 1, self:size() do
    local place = self:size()
    absolute[place] = self:size()
  end
  local line = defined
  for i = 0, steps - 1 do
    local step = unpack("b", self.text, first + i)
    line = step == -128 and absolute[i] or line + step
    code_lines[i] = line
    -- Every function ends with a return instruction. If the script has no `return` there, the instruction has the line
    -- of the `end`, which does not count.
    local is_end = i == steps - 1 and line == last_defined and line ~= defined
    if not (i == 0 and takes_more) and not is_end then found.lines[line] = true end
  end
  for _ = 1, self:size() do
    self:string()
    self:size()
    self:size()
  end
  for _ = 1, self:size() do self:string() end
  if defined > 0 then found.functions[defined] = true end
  add_branches(code, code_lines, found.branches)
end

--- Returns what a file contains: `lines`, a set; `functions`, a set of the lines in which functions begin; `branches`,
--- for each line with a branch, the set of lines that may follow it. Returns nil if the file can no longer be read.
function bytecode.read(path)
  local chunk = loadfile(path, "t")
  if not chunk then return nil end
  local found = { lines = {}, functions = {}, branches = {} }
  -- The function begins after the header: signature, version, format, check, sizes, and the number of upvalues.
  local reader = setmetatable({ text = string.dump(chunk), at = 4 + 1 + 1 + 6 + 3 + 8 + 8 + 1 + 1 }, Reader)
  if not pcall(reader.code, reader, found) then return nil end
  for line, targets in pairs(found.branches) do
    local count = 0
    for _ in pairs(targets) do count = count + 1 end
    if count < 2 then found.branches[line] = nil end
  end
  return found
end

return bytecode
