-- Snapshots: earlier values that a person has checked, in a file beside the tests.

local system = ...
local snapshot = {}
local type, pairs, tostring, next = type, pairs, tostring, next
local format, concat, sort, io_open = string.format, table.concat, table.sort, io.open
local values = require "runloop.test.values"

local core, stored, kinds
local used, has_changed, path

-- Writes a value as a text of several lines, tables sorted by key.
local function write(out, value, indent, path_up)
  if type(value) ~= "table" or next(value) == nil or path_up[value] then
    out[#out + 1] = path_up[value] and "<above>" or values.show(value)
    return
  end
  path_up[value] = true
  out[#out + 1] = "{\n"
  for _, key in pairs(values.sorted_keys(value)) do
    out[#out + 1] = indent .. "  " .. (type(key) == "string" and key:find "^[%a_][%w_]*$" and key
      or "[" .. values.show(key) .. "]") .. " = "
    write(out, value[key], indent .. "  ", path_up)
    out[#out + 1] = ",\n"
  end
  out[#out + 1] = indent .. "}"
  path_up[value] = nil
end

local function text_of(value)
  if type(value) == "string" then return value end
  local out = {}
  write(out, value, "", {})
  return concat(out)
end

-- Reads the file. Each snapshot has a line "=== name", the type of its value, and its lines, each after a bar.
local function read()
  stored, kinds, used = {}, {}, {}
  local file = io_open(path)
  if not file then return end
  local name, lines
  local function put() if name then stored[name] = concat(lines, "\n") end end
  for line in file:lines() do
    local next_name = line:match "^=== (.*)$"
    if next_name then
      put()
      name, lines = next_name, {}
    elseif name and line:find "^%(%l+%)$" then
      kinds[name] = line:sub(2, -2)
    elseif name and line:sub(1, 1) == "|" then
      lines[#lines + 1] = line:sub(2)
    end
  end
  put()
  file:close()
end

local function save()
  local names, out = {}, { "Snapshots. `rlhost test --update` writes this file.\n" }
  for name in pairs(stored) do names[#names + 1] = name end
  sort(names)
  for _, name in pairs(names) do
    out[#out + 1] = format("\n=== %s\n", name)
    if kinds[name] then out[#out + 1] = format("(%s)\n", kinds[name]) end
    for line in (stored[name] .. "\n"):gmatch "(.-)\n" do out[#out + 1] = "|" .. line .. "\n" end
  end
  if #names == 0 then
    os.remove(path)
    return
  end
  local done, message = system.write_file(path, concat(out))
  if not done then core.fail("t.snapshot: cannot write the snapshots: " .. message) end
end

-- Returns the names of the snapshots that no test has used, except those of tests that failed or did not run.
local function unused(unfinished)
  local names = {}
  for name in pairs(stored) do
    local is_used = used[name]
    for _, title in pairs(unfinished) do is_used = is_used or name:sub(1, #title) == title end
    if not is_used then names[#names + 1] = name end
  end
  sort(names)
  return names
end

--- Begins the snapshots of a file.
function snapshot.begin(library)
  core = library
  path = core.path:gsub("%.lua$", "") .. ".snap"
  read()
end

--- Looks for unused snapshots when all tests of a file have run: removes them with --update, otherwise names them.
--- `unfinished` lists the titles of tests that may have further snapshots, because they failed or did not run. Returns
--- a note, or nil.
function snapshot.finish(unfinished)
  local names = unused(unfinished)
  if core.options.update then
    for _, name in pairs(names) do
      stored[name] = nil
      has_changed = true
    end
    if has_changed then save() end
  elseif #names > 0 then
    return format("%s: no test uses the snapshot%s '%s': rlhost test --update removes %s", path,
      #names > 1 and "s" or "",
      concat(names, "', '"), #names > 1 and "them" or "it")
  end
end

--- Returns the title with which the snapshots of a test begin.
function snapshot.title(names) return (concat(names, " › "):gsub("\n", " ")) end

function snapshot.add(t, library)

  snapshot.begin(library)

  --- Fails unless a value is the same as at the last `--update`. If a test has several snapshots, `name` distinguishes
  --- them; without names, their order does.
  function t.snapshot(value, name)
    local current = core.current
    if not current or not current.node then
      core.misuse "t.snapshot: only a test can compare something with a snapshot"
    end
    core.check_argument(name, "string or nil", "t.snapshot", 2, "a name")
    current.snapshots = (current.snapshots or 0) + 1
    local title = snapshot.title(require "runloop.test.fixtures".full_name(current.node))
    title = title .. " › " .. (name or tostring(current.snapshots)):gsub("\n", " ")
    local text, kind = text_of(value), type(value)
    -- Two different snapshots with one name would overwrite each other.
    local other = used[title]
    if other and other.node ~= current.node and (other.text ~= text or other.kind ~= kind) then
      core.fail(format("another test has the snapshot '%s', too, and it is different: "
        .. "give each test, or each snapshot, its own name", title))
    end
    used[title] = { node = current.node, text = text, kind = kind }
    -- Older files do not contain the type of the value.
    local is_kind = not kinds[title] or kinds[title] == kind
    if stored[title] == text and is_kind and (kinds[title] or not core.options.update) then return value end
    if core.options.update then
      stored[title], kinds[title], has_changed = text, kind, true
      save()
      return value
    end
    if stored[title] == text then
      core.fail(format("the snapshot '%s' is a %s, and this value is a %s", title, kinds[title], kind),
        { "if that is right: rlhost test --update" })
    end
    if not stored[title] then
      core.fail(format("there is no snapshot '%s' yet: rlhost test --update makes it", title),
        { "it is " .. values.show(value) })
    end
    local message, details = values.difference(text .. "\n", stored[title] .. "\n")
    details = details or { message }
    details[#details + 1] = "if that is right: rlhost test --update"
    core.fail(format("the value differs from the snapshot '%s' (- snapshot, + now)", title), details)
  end

end

return snapshot
