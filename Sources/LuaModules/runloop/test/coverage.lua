-- Line coverage: which lines of the Lua files that ran hold code, which of them ran, and how often.

local coverage = {}
coverage.__index = coverage

local format, sort, pairs, ipairs = string.format, table.sort, pairs, ipairs
local unpack, byte = string.unpack, string.byte

function coverage.new(here) return setmetatable({ files = {}, here = here }, coverage) end

--- Adds what a worker has counted: times by line by path.
function coverage:add(files)
  for path, lines in pairs(files) do
    path = self:name(path)
    local all = self.files[path]
    if not all then
      all = {}
      self.files[path] = all
    end
    for line, count in pairs(lines) do all[line] = (all[line] or 0) + count end
  end
end

-- Files beneath the current directory by their names there, however they were loaded.
function coverage:name(path)
  local here = self.here
  if here and path:sub(1, #here + 1) == here .. "/" then path = path:sub(#here + 2) end
  return (path:gsub("^%./", ""))
end

-- The lines with code ------------------------------------------------------------------------------------------------

-- Reads a function as string.dump of Lua 5.4 writes it: the line of each instruction is in it. A function's first
-- instruction only prepares its extra arguments, if it takes any: that is no line of the script.

local Reader = {}
Reader.__index = Reader

function Reader:byte()
  self.at = self.at + 1
  return byte(self.text, self.at - 1)
end

-- Seven bits a byte, the last one marked.
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

function Reader:code(lines)
  self:string()
  local defined = self:size()
  local last_defined = self:size()
  self:skip(1)
  local takes_more = self:byte() ~= 0
  self:skip(1)
  local count = self:size()
  self:skip(count * 4)
  for _ = 1, self:size() do
    local kind = self:byte()
    if kind == 0x13 or kind == 0x03 then self:skip(8) elseif kind == 0x04 or kind == 0x14 then self:string() end
  end
  self:skip(self:size() * 3)
  for _ = 1, self:size() do self:code(lines) end
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
    -- Every function ends with a return; where the script has none, that is its line with `end`.
    local is_end = i == steps - 1 and line == last_defined and line ~= defined
    if not (i == 0 and takes_more) and not is_end then lines[line] = true end
  end
  for _ = 1, self:size() do
    self:string()
    self:size()
    self:size()
  end
  for _ = 1, self:size() do self:string() end
end

--- The lines of a file that hold code; nil if it cannot be read any more.
local function code_lines(path)
  local chunk = loadfile(path, "t")
  if not chunk then return nil end
  local lines = {}
  -- Behind the header: signature, version, format, check, sizes, and the number of upvalues.
  local reader = setmetatable({ text = string.dump(chunk), at = 4 + 1 + 1 + 6 + 3 + 8 + 8 + 1 + 1 }, Reader)
  local fine = pcall(reader.code, reader, lines)
  return fine and lines or nil
end

-- The report ----------------------------------------------------------------------------------------------------------

-- The project's own: beneath the current directory.
local function is_own(path) return path:sub(1, 1) ~= "/" and not path:find "%.%./" end

local function ranges(lines)
  local parts, i = {}, 1
  while i <= #lines do
    local j = i
    while j < #lines and lines[j + 1] == lines[j] + 1 do j = j + 1 end
    parts[#parts + 1] = i == j and format("%d", lines[i]) or format("%d-%d", lines[i], lines[j])
    i = j + 1
  end
  local shown = table.concat(parts, " ", 1, #parts < 8 and #parts or 8)
  return #parts > 8 and shown .. " …" or shown
end

local function percent(part, whole) return whole == 0 and 100 or math.floor(part * 1000 / whole) / 10 end

--- Prints a summary with `say`, writes lcov's format to a file, and answers how many percent of all lines ran.
function coverage:finish(target, say)
  local paths = {}
  for path in pairs(self.files) do if is_own(path) then paths[#paths + 1] = path end end
  sort(paths)
  local out, rows, all_hit, all_found, width = {}, {}, 0, 0, 4
  for _, path in ipairs(paths) do
    local counts, lines = self.files[path], {}
    local code = code_lines(path)
    for line in pairs(code or counts) do lines[#lines + 1] = line end
    sort(lines)
    local hit, missed = 0, {}
    out[#out + 1] = "TN:\nSF:" .. path .. "\n"
    for _, line in ipairs(lines) do
      local count = counts[line] or 0
      if count > 0 then hit = hit + 1 else missed[#missed + 1] = line end
      out[#out + 1] = format("DA:%d,%d\n", line, count)
    end
    out[#out + 1] = format("LF:%d\nLH:%d\nend_of_record\n", #lines, hit)
    rows[#rows + 1] = { path, hit, #lines, ranges(missed) }
    all_hit, all_found = all_hit + hit, all_found + #lines
    if #path > width then width = #path end
  end
  say(format("\n%-" .. width .. "s  %7s  lines that never ran\n", "file", "covered"))
  for _, row in ipairs(rows) do
    say((format("%-" .. width .. "s  %6.1f%%  %s", row[1], percent(row[2], row[3]), row[4]):gsub("%s+$", "")) .. "\n")
  end
  say(format("%-" .. width .. "s  %6.1f%%  %d of %d lines\n", "all", percent(all_hit, all_found), all_hit, all_found))
  local file, message = io.open(target, "w")
  if not file then
    io.stderr:write("rlhost: test: cannot write the coverage: ", message, "\n")
    return percent(all_hit, all_found)
  end
  file:write(table.concat(out))
  file:close()
  return percent(all_hit, all_found)
end

return coverage
