-- runloop.arguments: parses the arguments of a script. A table describes the options; the help text is made from the
-- same table.

local misuse = require "runloop.misuse"

local arguments = {}
local format, rep, sub, find = string.format, string.rep, string.sub, string.find
local match, gmatch = string.match, string.gmatch
local concat, sort = table.concat, table.sort

-- Reads a finite number.
local function finite(text)
  local number = tonumber(text)
  return number and number - number == 0 and number or nil
end

-- Functions that read a value. Each function returns the value, or nil and a description of what was expected.
local TYPES = {
  string = function(text) return text end,
  number = function(text) return finite(text), "a number" end,
  integer = function(text) return math.tointeger(tonumber(text)), "an integer" end,
  -- Reads 90, 1.5s, 200ms, 5m, 2h or 1d as seconds.
  duration = function(text)
    local number, unit = match(text, "^([%d.]+)(%a*)$")
    local scale = ({ [""] = 1, ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 })[unit or "?"]
    number = finite(number)
    return number and scale and finite(number * scale), "a duration such as 90, 1.5s, 200ms, 5m or 2h"
  end,
  -- Reads 65536, 64k, 1.5M or 2G as bytes.
  size = function(text)
    local number, unit = match(text, "^([%d.]+)([kKMG]?)[iI]?[bB]?$")
    local scale = ({ [""] = 1, k = 1 << 10, K = 1 << 10, M = 1 << 20, G = 1 << 30 })[unit or "?"]
    number = finite(number)
    -- In integers, a larger product would wrap around.
    local is_too_large = number and scale and number > math.maxinteger // scale
    local bytes = number and scale and not is_too_large and math.tointeger(number * scale // 1) or nil
    return bytes, "a size such as 65536, 64k or 2M"
  end,
}

local FIELDS = {
  value = "string", type = "string", default = true, help = "string", many = "boolean", count = "boolean",
  choices = "table", required = "boolean", optional = "boolean", name = "string", hidden = "boolean",
}
local OF_ALL = { name = "string", description = "string", epilogue = "string", version = "string", usage = "string" }

-- The name of the function that was called. Errors about a wrong table begin with this name.
local called
local function wrong(text, ...) misuse.raise(called .. ": " .. format(text, ...)) end

local function check_fields(table_, allowed, what)
  for field, value in pairs(table_) do
    if type(field) == "string" then
      local kind = allowed[field]
      if not kind then
        wrong("%s: unknown field '%s'%s", what, field, misuse.hint(field, allowed))
      elseif kind ~= true and type(value) ~= kind then
        wrong("%s: %s must be a %s, got %s", what, field, kind, misuse.describe(value))
      end
    end
  end
end

-- Checks a specification once, and returns it in the form that the parser uses.
local function understand(spec, what)
  called = what
  if type(spec) ~= "table" then wrong("argument #1 must be a table of options, got %s", misuse.describe(spec)) end
  check_fields(spec, OF_ALL, "the table of options")
  local all = { spec = spec, flags = {}, options = {}, positionals = {}, keys = {} }
  for index, entry in ipairs(spec) do
    local what = "entry " .. index
    if type(entry) ~= "table" or type(entry[1]) ~= "string" then
      wrong("%s must be a table such as { \"-p --port\", … }", what)
    end
    what = format("'%s'", entry[1])
    check_fields(entry, FIELDS, what)
    local kind = entry.type or "string"
    if not TYPES[kind] then
      local known = {}
      for name in pairs(TYPES) do known[#known + 1] = name end
      sort(known)
      wrong("%s: unknown type '%s' (there are: %s)", what, kind, concat(known, ", "))
    end
    local item = { entry = entry, read = TYPES[kind], names = {}, many = entry.many, help = entry.help or "" }
    if sub(entry[1], 1, 1) == "-" then
      for name in gmatch(entry[1], "[^%s,]+") do
        if not match(name, "^%-%-?[%w?][%w_-]*$") then wrong("%s: '%s' cannot be an option's name", what, name) end
        if match(name, "^%-[^-].") then
          wrong("%s: '%s' cannot be an option's name: a name of several letters begins with --", what, name)
        end
        if all.flags[name] then wrong("%s: two options are named '%s'", what, name) end
        all.flags[name] = item
        item.names[#item.names + 1] = name
      end
      local long = item.names[1]
      for _, name in ipairs(item.names) do if #name > #long then long = name end end
      item.key = entry.name or (long:gsub("^%-+", ""):gsub("%-", "_"))
      item.label = concat(item.names, ", ")
      item.takes = entry.value or (entry.type or entry.choices or type(entry.default) == "string") and item.key:upper()
      all.options[#all.options + 1] = item
    else
      item.key, item.label = entry.name or entry[1], entry[1]
      local before = all.positionals[#all.positionals]
      if before and before.many then
        wrong("%s: nothing can follow '%s', which takes all the rest", what, before.label)
      end
      if before and before.entry.optional and not (entry.optional or entry.many or entry.default ~= nil) then
        wrong("%s cannot be required after '%s', which is optional", what, before.label)
      end
      all.positionals[#all.positionals + 1] = item
    end
    if all.keys[item.key] then wrong("%s: two options are named '%s'; give one of them a 'name'", what, item.key) end
    all.keys[item.key] = item
    if entry.choices then
      item.choices = {}
      for _, choice in ipairs(entry.choices) do item.choices[choice] = true end
    end
  end
  return all
end

-- Wraps text to a width, with a margin on the left.
local function wrap(text, margin, width)
  local lines, line = {}, ""
  for word in gmatch(text, "%S+") do
    if #line > 0 and margin + #line + 1 + #word > width then
      lines[#lines + 1], line = line, word
    else
      line = #line > 0 and line .. " " .. word or word
    end
  end
  lines[#lines + 1] = line
  return concat(lines, "\n" .. rep(" ", margin))
end

local function program(all) return all.spec.name or arg and arg[0] and match(arg[0], "[^/]*$") or "script" end

local function usage(all)
  if all.spec.usage then return all.spec.usage end
  local parts = { program(all) }
  if #all.options > 0 then parts[#parts + 1] = "[options]" end
  for _, item in ipairs(all.positionals) do
    local text = item.label:upper() .. (item.many and "…" or "")
    local entry = item.entry
    local can_lack = entry.optional or entry.default ~= nil or item.many and not entry.required
    parts[#parts + 1] = can_lack and "[" .. text .. "]" or text
  end
  return concat(parts, " ")
end

local function with_default(item)
  local help, default = item.help, item.entry.default
  if item.entry.choices then
    help = help .. (help == "" and "" or "; ") .. "one of: " .. concat(item.entry.choices, ", ")
  end
  if default ~= nil and default ~= false then help = help .. format(" (%s)", tostring(default)) end
  return help
end

local function help(all, width)
  local spec, lines = all.spec, { "usage: " .. usage(all) }
  if spec.description then lines[#lines + 1] = "\n" .. wrap(spec.description, 0, width) end
  local function section(title, rows)
    if #rows == 0 then return end
    local margin = 0
    for _, row in ipairs(rows) do if #row[1] <= 26 then margin = math.max(margin, #row[1]) end end
    lines[#lines + 1] = "\n" .. title
    for _, row in ipairs(rows) do
      local label = "  " .. row[1]
      if #row[1] > margin then
        label = label .. "\n" .. rep(" ", margin + 4)
      else
        label = label .. rep(" ", margin + 4 - #label)
      end
      lines[#lines + 1] = label .. wrap(row[2], margin + 4, width)
    end
  end
  local positionals, options = {}, {}
  for _, item in ipairs(all.positionals) do
    positionals[#positionals + 1] = { item.label:upper(), with_default(item) }
  end
  for _, item in ipairs(all.options) do
    if not item.entry.hidden then
      local indent = sub(item.label, 1, 2) == "--" and "    " or ""
      local label = indent .. item.label .. (item.takes and " " .. item.takes or "")
      local many = item.many and (item.help == "" and "" or "; ") .. "may be given more than once" or ""
      options[#options + 1] = { label, with_default(item) .. many }
    end
  end
  if not all.flags["--help"] then
    options[#options + 1] = { all.flags["-h"] and "    --help" or "-h, --help", "shows this" }
  end
  if spec.version and not all.flags["--version"] then
    options[#options + 1] = { "    --version", "shows the version" }
  end
  section("arguments:", positionals)
  section("options:", options)
  if spec.epilogue then lines[#lines + 1] = "\n" .. wrap(spec.epilogue, 0, width) end
  return concat(lines, "\n") .. "\n"
end

-- Takes the words of `rest` as positional arguments, and fails if a required argument or option is missing.
local function place(all, rest, values, take, fail)
  local index = 1
  for _, item in ipairs(all.positionals) do
    if item.many then
      if item.entry.required and not rest[index] then fail("%s is missing", item.label:upper()) end
      for n = index, #rest do take(item, item.label:upper(), rest[n]) end
      index = #rest + 1
    elseif rest[index] ~= nil then
      take(item, item.label:upper(), rest[index])
      index = index + 1
    elseif not item.entry.optional and item.entry.default == nil then
      fail("%s is missing", item.label:upper())
    end
  end
  if rest[index] ~= nil then fail("'%s' is one argument too many", rest[index]) end
  for _, item in ipairs(all.options) do
    if item.entry.required and values[item.key] == nil then fail("%s is missing", item.names[#item.names]) end
  end
end

local function read(all, list)
  local values, rest, failed = {}, {}, nil
  local function fail(text, ...) failed = failed or format(text, ...) end
  local function take(item, label, text)
    if item.choices and not item.choices[text] then
      return fail("%s must be one of %s; got '%s'", label, concat(item.entry.choices, ", "), text)
    end
    local value, expected = item.read(text)
    if value == nil then return fail("%s must be %s; got '%s'", label, expected, text) end
    if item.many then
      local all_values = values[item.key] or {}
      all_values[#all_values + 1] = value
      values[item.key] = all_values
    else
      values[item.key] = value
    end
  end
  -- The value of an option is the rest of its word, or else the next word.
  local index = 1
  local function take_value(item, name, text)
    if not text then text, index = list[index], index + 1 end
    if text == nil then fail("%s needs a value: %s %s", name, name, item.takes) else take(item, name, text) end
  end
  local function unknown(name)
    local near = misuse.nearest(name, all.flags)
    return fail("unknown option '%s'%s", name, near and " (did you mean '" .. near .. "'?)" or "")
  end
  local function set(item)
    if item.entry.count then values[item.key] = (values[item.key] or 0) + 1 else values[item.key] = true end
  end

  while index <= #list and not failed do
    local word = list[index]
    index = index + 1
    if word == "--" then
      for n = index, #list do rest[#rest + 1] = list[n] end
      break
    elseif sub(word, 1, 2) == "--" then
      local name, text = match(word, "^(%-%-[^=]+)=(.*)$")
      name = name or word
      local item = all.flags[name]
      if item and item.takes then
        take_value(item, name, text)
      elseif item then
        if text then fail("%s takes no value; got '%s'", name, text) else set(item) end
      elseif name == "--help" then return nil, nil, "help"
      elseif name == "--version" and all.spec.version then return nil, nil, "version"
      else
        local positive = match(name, "^%-%-no%-(.+)$")
        local negated = positive and all.flags["--" .. positive]
        if negated and not negated.takes and not negated.entry.count then
          values[negated.key] = false
        else
          unknown(name)
        end
      end
    elseif find(word, "^%-[^%d.]") or find(word, "^%-[%d.]") and all.flags[sub(word, 1, 2)] then
      -- A word such as -vn: the last of its letters may have a value, in the same word or in the next.
      local at = 2
      while at <= #word and not failed do
        local name = "-" .. sub(word, at, at)
        local item = all.flags[name]
        at = at + 1
        if item and item.takes then
          take_value(item, name, at <= #word and sub(word, at) or nil)
          break
        elseif item then set(item)
        elseif name == "-h" then return nil, nil, "help"
        else unknown(at == 3 and word or name) end
      end
    else
      rest[#rest + 1] = word
    end
  end
  if failed then return nil, failed end

  place(all, rest, values, take, fail)
  if failed then return nil, failed end
  for key, item in pairs(all.keys) do
    if values[key] == nil then
      local default = item.entry.default
      if default == nil then
        if item.many then
          default = {}
        elseif item.entry.count then
          default = 0
        elseif item.names[1] and not item.takes then
          default = false
        end
      end
      values[key] = default
    end
  end
  return values
end

local function width()
  local columns = math.tointeger(tonumber(os.getenv "COLUMNS"))
  return columns and math.max(40, math.min(columns, 120)) or 80
end

local function words(list)
  if list == nil then
    list = {}
    for index, word in ipairs(arg or {}) do list[index] = word end
  elseif type(list) ~= "table" then
    wrong("argument #2 must be a table of words, got %s", misuse.describe(list))
  end
  for index, word in ipairs(list) do
    if type(word) ~= "string" then wrong("word %d must be a string, got %s", index, misuse.describe(word)) end
  end
  return list
end

local function try(what, spec, list)
  local all = understand(spec, what)
  local values, message, wish = read(all, words(list))
  if wish == "help" then return nil, help(all, width()), "help" end
  if wish == "version" then return nil, spec.version .. "\n", "version" end
  return values, message
end

function arguments.try(spec, list) return try("arguments.try", spec, list) end

function arguments.help(spec) return help(understand(spec, "arguments.help"), width()) end

function arguments.parse(spec, list)
  local values, text, wish = try("arguments.parse", spec, list)
  if values then return values end
  if wish then
    io.stdout:write(text)
    os.exit(0, true)
  end
  io.stderr:write(program { spec = spec }, ": ", text, "\nusage: ", usage(understand(spec, "arguments.parse")), "\n")
  os.exit(64, true)
end

return arguments
