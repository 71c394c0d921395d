-- runloop.bundle: `rlhost bundle` puts a script and the modules that it requires into one Lua file.

local fs = require "runloop.fs"
local misuse = require "runloop.misuse"
local scan = require "runloop.prompt.tokens".scan
local shown = require "runloop.text".shown

local USAGE = [[
usage: rlhost bundle script.lua [-o FILE] [--module NAME]...    put a script and its modules into one file
  -o FILE         the file to write, which is made executable; without this option, or with -, standard output
  --module NAME   also include this module, whose name a require computes
The modules are those that 'require "x"' finds by package.path. Modules in C and those of rlhost are not included.
exit status: 0 all went well, 1 a file is missing or is not Lua, 64 wrong use
]]

local bundle = {}
local script, output, extra = nil, nil, {}
-- `modules` has { name, path, text } for each module, in the order in which they were found. `known` has the names that
-- were handled already.
local modules, known = {}, {}
local outside, computed = {}, {}

local function fail(status, text, ...)
  io.stderr:write("rlhost: bundle: ", shown(text:format(...), true), "\n")
  os.exit(status)
end

local function parse(words)
  local index = 1
  local function value(word)
    index = index + 1
    if not words[index] then fail(64, "'%s' needs a value; see 'rlhost bundle --help'", word) end
    return words[index]
  end
  while words[index] do
    local word = words[index]
    if word == "-h" or word == "--help" then
      io.write(USAGE)
      os.exit(0)
    elseif word == "-o" then output = value(word)
    elseif word == "--module" then extra[#extra + 1] = value(word)
    elseif word:find "^%-." then
      local near = misuse.nearest(word, { ["-o"] = true, ["--module"] = true, ["--help"] = true })
      fail(64, "unknown option '%s'%s", word,
        near and (" (did you mean '%s'?)"):format(near) or "; see 'rlhost bundle --help'")
    elseif script then fail(64, "one script at a time, not '%s' and '%s'", script, word)
    else script = word end
    index = index + 1
  end
  if not script then fail(64, "it needs a script: rlhost bundle script.lua") end
end

-- Returns the text of a file without a first line that begins with `#`: unlike `loadfile`, `load` does not skip such a
-- line.
local function read(path)
  local text, problem = fs.read(path)
  if not text then fail(1, "%s", problem) end
  text = text:gsub("^\239\187\191", ""):gsub("^#[^\n]*", "")
  local chunk, wrong = load(text, "@" .. path)
  if not chunk then fail(1, "%s", wrong) end
  return text
end

local take

-- Returns the text of the token at an index, or nil.
local function text_at(tokens, index) return tokens[index] and tokens[index].text end

-- Adds the module whose name the `require` at an index has, or notes that the name is computed.
local function look_at(tokens, index, place)
  local before, following = text_at(tokens, index - 1), text_at(tokens, index + 1)
  local function literal(at)
    return tokens[at] and tokens[at].kind == "string" and load("return " .. tokens[at].text)()
  end
  if literal(index + 1) then return take(literal(index + 1), place) end
  if following == "(" then
    if literal(index + 2) and text_at(tokens, index + 3) == ")" then return take(literal(index + 2), place) end
  elseif following == "," and before == "(" and text_at(tokens, index - 2) == "pcall" then
    if literal(index + 2) and text_at(tokens, index + 3) == ")" then return take(literal(index + 2), place, true) end
  elseif following == "=" or before == "=" and text_at(tokens, index - 2) == "require" then
    -- This is not a call: the code only copies the function, as in `local require = require`.
    return
  end
  computed[#computed + 1] = place
end

-- Adds the modules that a text requires.
local function look(path, text)
  if text:find "^\27" then return end
  local tokens, line, at = scan(text), 1, 1
  for index, token in ipairs(tokens) do
    local before = text_at(tokens, index - 1)
    local is_other = before == "." or before == ":" or before == "function"
    if token.kind == "name" and token.text == "require" and not is_other then
      for _ in text:sub(at, token.first - 1):gmatch "\n" do line = line + 1 end
      at = token.first
      look_at(tokens, index, path .. ":" .. line)
    end
  end
end

function take(name, place, is_optional)
  local is_of_host = name == "runloop" or name:find "^runloop%."
  if known[name] then return end
  known[name] = true
  if is_of_host or package.loaded[name] and not package.searchpath(name, package.path) then
    if is_of_host then outside[#outside + 1] = name end
    return
  end
  local path = package.searchpath(name, package.path)
  if path then
    local module = { name = name, path = path, text = read(path) }
    modules[#modules + 1] = module
    return look(path, module.text)
  end
  local root = name:match "^[^.]+"
  if package.searchpath(name, package.cpath) or package.searchpath(root, package.cpath) then
    outside[#outside + 1] = name .. " (C)"
  elseif is_optional then
    known[name] = nil
  else
    fail(1, "%s: module '%s' not found", place, name)
  end
end

-- Returns a text as a literal of Lua.
local function quoted(text)
  if text:find "[\r%z]" or text:find "^\27" then return ("%q"):format(text) end
  local level = ""
  while text:find("]" .. level .. "]", 1, true) or text:find("]" .. level .. "$") do level = level .. "=" end
  return ("[%s[\n%s]%s]"):format(level, text, level)
end

local FINDER = [[
table.insert(package.searchers, 2, function(name)
  local module = modules[name]
  if module then return assert(load(module[2], "@" .. module[1])), module[1] end
end)
]]

local function write()
  local parts = { "#!/usr/bin/env rlhost\n", ("-- %s and its modules, made by rlhost bundle.\n"):format(shown(script)) }
  for _, list in ipairs { { "-- Not inside: ", outside }, { "-- Computed require: ", computed } } do
    table.sort(list[2])
    if #list[2] > 0 then parts[#parts + 1] = list[1] .. shown(table.concat(list[2], ", ")) .. "\n" end
  end
  for index = 3, #parts do io.stderr:write("rlhost: bundle: ", (parts[index]:gsub("^%-%- (%u)", string.lower))) end
  local text = read(script)
  if #modules > 0 then parts[#parts + 1] = "local modules = {}\n" end
  for _, module in ipairs(modules) do
    parts[#parts + 1] = ("modules[%q] = { %q, %s }\n"):format(module.name, module.path, quoted(module.text))
  end
  if #modules > 0 then parts[#parts + 1] = FINDER end
  parts[#parts + 1] = ("return assert(load(%s, %q))(...)\n"):format(quoted(text), "@" .. script)
  local whole = table.concat(parts)
  if not output or output == "-" then return io.write(whole) end
  local written, problem = fs.write(output, whole, { mode = 493 })
  if not written then fail(1, "%s", problem) end
end

-- Refuses an output file that is one of the sources.
local function check_output()
  local place = output and output ~= "-" and fs.real_path(output)
  if not place then return end
  local sources = { script }
  for _, module in ipairs(modules) do sources[#sources + 1] = module.path end
  for _, source in ipairs(sources) do
    if fs.real_path(source) == place then fail(64, "-o: the file would replace %s", source) end
  end
end

function bundle.run(...)
  parse { ... }
  look(script, read(script))
  for _, name in ipairs(extra) do take(name, "--module") end
  check_output()
  write()
  io.stdout:flush()
  os.exit(0)
end

return bundle
