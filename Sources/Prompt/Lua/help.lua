-- The texts of `help` and `.help`. The chunk is called with the reference, the texts about Lua's own library, and
-- functions that find the names of functions and of kinds of objects.

local reference, stdlib, names, inspector = ...
local functions, classes, plain = reference.functions, reference.classes, reference.plain
local type, next, ipairs = type, next, ipairs
local find, match, sub = string.find, string.match, string.sub
local gsub, rep = string.gsub, string.rep
local concat, sort = table.concat, table.sort
local getinfo, open = debug.getinfo, io.open

local help = {}

local function starts_with(text, start) return sub(text, 1, #start) == start end

-- Wraps a paragraph. The first line begins with `head`, unchanged; further lines begin with `indent`.
local function wrap(text, width, indent, head)
  local lines, line = {}, head or ""
  local is_fresh = true
  indent = indent or ""
  for word in text:gmatch "%S+" do
    if not is_fresh and (inspector.length_of(line .. " " .. word) or 0) > width then
      lines[#lines + 1] = line
      line, is_fresh = indent, true
    end
    line = line .. (is_fresh and "" or " ") .. word
    is_fresh = false
  end
  lines[#lines + 1] = line
  return concat(lines, "\n")
end

local function fields_text(fields, width)
  local widest = 0
  for _, field in ipairs(fields) do widest = #field.name > widest and #field.name or widest end
  if widest > 16 then widest = 16 end
  local out = {}
  for _, field in ipairs(fields) do
    local head = "  " .. field.name .. rep(" ", widest - #field.name) .. "  "
    local kind = gsub(field.type, "runloop%.", "")
    local text = kind .. (field.optional and ", optional" or "") .. (field.text ~= "" and ": " .. field.text or "")
    out[#out + 1] = wrap(text, width, rep(" ", width > 40 and #head or 4), head)
  end
  return concat(out, "\n")
end

local function render(entry, width)
  local out, in_example, paragraph = { entry.title }, false, nil
  local function flush()
    if paragraph then out[#out + 1] = wrap(paragraph, width) end
    paragraph = nil
  end
  out[2] = ""
  for _, line in ipairs(entry.text) do
    if match(line, "^```") then
      flush()
      in_example = not in_example
    elseif in_example then
      out[#out + 1] = "    " .. line
    elseif match(line, "^@") then
      flush()
    elseif line == "" then
      flush()
      out[#out + 1] = ""
    else
      paragraph = paragraph and paragraph .. " " .. line or line
    end
  end
  flush()
  while out[#out] == "" do out[#out] = nil end
  if #entry.params + #entry.returns > 0 then out[#out + 1] = "" end
  for _, param in ipairs(entry.params) do
    local text = gsub(param.type, "runloop%.", "") .. (param.text ~= "" and ": " .. param.text or "")
    out[#out + 1] = wrap(text, width, "    ", "  " .. param.name .. ": ")
  end
  for _, line in ipairs(entry.text) do
    local result = match(line, "^@return (.*)$")
    if result then out[#out + 1] = wrap(gsub(result, "runloop%.", ""), width, "    ", "  returns ") end
  end
  local shown = {}
  for _, param in ipairs(entry.params) do
    local fields, class = reference.fields_of(param.type)
    if class and #fields > 0 and not shown[class] then
      shown[class] = true
      out[#out + 1] = ""
      out[#out + 1] = gsub(class, "^runloop%.", "") .. ":"
      out[#out + 1] = fields_text(fields, width)
    end
  end
  return concat(out, "\n")
end

-- Returns the first sentence of a text.
local function meaning(entry)
  local first = {}
  for _, line in ipairs(entry.text) do
    if line == "" or find(line, "^[@`]") then break end
    first[#first + 1] = line
  end
  local text = concat(first, " ")
  return match(text, "^(.-%.)%s") or text
end

-- Returns a list with a line for each entry.
local function list(entries, width)
  sort(entries, function(a, b) return a.title < b.title end)
  local out, seen = {}, {}
  for _, entry in ipairs(entries) do
    if not seen[entry.title] then
      seen[entry.title] = true
      local text = meaning(entry)
      out[#out + 1] = wrap(text, width, "      ", entry.title .. (text ~= "" and "  " or ""))
    end
  end
  return concat(out, "\n")
end

-- Returns the calls for which `fits` returns true.
local function calls(fits)
  local found = {}
  for key, entry in next, functions do
    if fits(key) then found[#found + 1] = entry end
  end
  return found
end

-- Describes a class with its fields and calls.
local function about_class(class, width)
  local text, key = concat(classes[class].text, " "), plain(class)
  local out = { (gsub(class, "^runloop%.", "")) }
  if text ~= "" then out[#out + 1] = wrap(text, width) end
  local fields = reference.fields_of(class)
  if #fields > 0 then out[#out + 1] = fields_text(fields, width) end
  local found = calls(function(other) return match(other, "^(.*)[.:][^.:]+$") == key end)
  if #found > 0 then out[#out + 1] = list(found, width) end
  return concat(out, "\n\n")
end

-- Lists the functions of a module and its classes, one line each.
local function about_module(name, width)
  local found = calls(function(other) return match(other, "^(.*)[.][^.:]+$") == name end)
  local out, kinds = { "runloop." .. name, list(found, width) }, {}
  for class, body in next, classes do
    if starts_with(class, "runloop." .. name .. ".") then
      kinds[#kinds + 1] = { title = gsub(class, "^runloop%.", ""), text = body.text }
    end
  end
  if #kinds > 0 then out[#out + 1] = list(kinds, width) end
  return concat(out, "\n\n")
end

-- Returns the comment above a function in its file.
local function own_comment(info)
  if sub(info.source, 1, 1) ~= "@" or info.linedefined < 1 then return nil end
  local file = open(sub(info.source, 2), "r")
  if not file then return nil end
  local lines = {}
  for _ = 1, info.linedefined - 1 do
    local line = file:read "l"
    if not line then break end
    local comment = match(line, "^%s*%-%-+%s?(.*)$")
    if comment then lines[#lines + 1] = comment else lines = {} end
  end
  file:close()
  return #lines > 0 and concat(lines, "\n") or nil
end

local function about_own(value)
  local info = getinfo(value, "S")
  local text = inspector.function_text(value, nil, names.own(value))
  local comment = own_comment(info)
  return comment and text .. "\n\n" .. inspector.harmless(comment) or text
end

local function standard(name, width)
  local text = stdlib.texts[name]
  if not text then return nil end
  return stdlib.title(name) .. "\n\n" .. wrap(text, width)
end

local function library(name, width)
  local found = {}
  for other, text in next, stdlib.texts do
    if match(other, "^(.-)[.:]") == name then found[#found + 1] = { title = stdlib.title(other), text = { text } } end
  end
  return #found > 0 and list(found, width) or nil
end

-- Returns the call that a name stands for, such as `rl.sleep`, `sleep`, `net.connect` or `timer.fire`; nil if there is
-- none.
local function call_named(key)
  local member = gsub(key, "[.]([^.:]+)$", ":%1")
  local entry = functions[key] or functions["rl." .. key] or functions[member] or functions[(gsub(key, "^rl[.:]", ""))]
  if entry or not find(key, "[.:]") then return entry end
  -- `stream:read` may be a method of any module. If several modules have such a method, all are listed.
  local found = calls(function(other)
    return sub(other, -#key - 1) == "." .. key or sub(other, -#key - 1) == "." .. member
  end)
  return #found == 1 and found[1] or nil, found
end

-- Returns the text for a name, a function, an object or a module; or nil and a message.
function help.text(what, width)
  width = width and width > 20 and width - 1 or 79
  local class = type(what) ~= "string" and names.class(what)
  if class then return about_class(class, width) end
  local module = type(what) ~= "string" and names.module(what)
  if module then return about_module(module, width) end
  local name = type(what) == "string" and what or names.of(what)
  local rl = package.loaded.runloop
  if what == rl and what ~= nil then name = "rl" end
  if type(what) ~= "string" and not name and type(what) == "function" then return about_own(what) end
  if not name then
    return nil, "help: there is no text about this " .. type(what)
      .. "; help(rl.sleep) or help \"rl.sleep\" would show text"
  end
  name = match(name, "^%s*(.-)[%s()]*$")
  local key = plain(name)
  -- net.Stream is a class; net.stream a function.
  class = "runloop." .. name
  if classes[class] and find(name, "%u") then return about_class(class, width) end
  local entry, several = call_named(key)
  if entry and find(key, "[.:]") then return render(entry, width) end
  for _, known in ipairs(reference.modules) do
    if known == key then return about_module(key, width) end
  end
  local is_standard = standard(name, width) or library(name, width)
  if is_standard and not entry then return is_standard end
  if several and #several > 0 then return list(several, width) end
  class = reference.class_named(name)
  local found = calls(function(other)
    return functions[other] ~= entry and (starts_with(other, key .. ":") or starts_with(other, key .. ".")
      or match(other, "([^.:]+)$") == key)
  end)
  if entry then return render(entry, width) .. (#found > 0 and "\n\n" .. list(found, width) or "") end
  if class and (find(class, "^runloop%.[^.]+%.") or #classes[class].fields > 0) then
    local same = calls(function(other) return match(other, "([^.:]+)$") == key end)
    return about_class(class, width) .. (#same > 0 and "\n\n" .. list(same, width) or "")
  end
  for alias, kind in next, reference.aliases do
    if plain(alias) == key then
      return gsub(alias, "^runloop%.", "") .. "\n\n" .. wrap(gsub(kind, "|", " | "), width)
    end
  end
  if #found == 1 then return render(found[1], width) end
  if #found > 0 then return list(found, width) end
  -- A field of options: `help "rl.timer.tolerance"`, `help "tolerance"`.
  local last = match(name, "([%w_]+)$")
  local owner = match(key, "^(.-)%.?[%w]+$")
  local out, seen = {}, {}
  for other, candidate in next, functions do
    if (owner == "" or other == owner or other == "rl." .. owner) and not seen[candidate] then
      seen[candidate] = true
      for _, param in ipairs(candidate.params) do
        for _, field in ipairs(reference.fields_of(param.type)) do
          if field.name == last then out[#out + 1] = candidate.title .. ":\n" .. fields_text({ field }, width) end
        end
      end
    end
  end
  sort(out)
  if #out > 0 then return concat(out, "\n") end
  return nil, "help: there is no '" .. name .. "' in the reference"
end

return help
