-- Reads annotations: what calls there are, what their arguments and results are, and the fields of tables of options. Called
-- with the texts of annotated files; returns { functions, classes, aliases }.

local find, match, sub, gsub, gmatch = string.find, string.match, string.sub, string.gsub, string.gmatch
local concat = table.concat

-- By "rl.sleep", "timer:fire": { title, text (lines), params, returns }. Params are { name, type, text }.
local functions = {}
-- By "runloop.TimerOptions": { fields, text (lines) }. Fields are { name, type, text, optional }.
local classes = {}
-- By "runloop.Result": the type that it stands for, alternatives with |.
local aliases = {}

local BRACKETS = { ["("] = 1, ["{"] = 1, ["<"] = 1, ["["] = 1, [")"] = -1, ["}"] = -1, [">"] = -1, ["]"] = -1 }

-- The type that a text begins with, and what follows it. Blanks inside of brackets, and behind : and |, belong to it.
local function split_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = sub(text, at, at)
    if c == '"' then at = find(text, '"', at + 1, true) or #text end
    depth = depth + (BRACKETS[c] or 0)
    if c == " " and depth == 0 and not find(text, "^[:|,]", at - 1) then break end
    at = at + 1
  end
  return sub(text, 1, at - 1), gsub(sub(text, at + 1), "^%s*#?%s*", "")
end

-- The name of a class in code, as people write it: `runloop.FDPort` is `fd_port`, `Timer` is `timer`.
local function plain(name) return (gsub(gsub(name:lower(), "^runloop%.", ""), "_", "")) end

local function read_field(line)
  local name, rest = match(line, "^@field (%S+) (.*)$")
  local kind, text = split_type(rest)
  local optional = sub(name, -1) == "?"
  return { name = optional and sub(name, 1, -2) or name, type = kind, text = text, optional = optional }
end

local function read(text)
  local lines, class, alias = {}, nil, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local comment = match(line, "^%-%-%-(.*)$")
    if comment then
      if find(comment, "^@class ") then
        class = { fields = {}, text = lines }
        classes[match(comment, "^@class ([%w_.]+)")] = class
      elseif class and find(comment, "^@field ") then
        class.fields[#class.fields + 1] = read_field(comment)
      elseif find(comment, "^@alias ") then
        local name, kind = match(comment, "^@alias ([%w_.]+)%s*(.*)$")
        alias = name
        aliases[name] = kind
      elseif alias and find(comment, "^|") then
        local kind = split_type(gsub(comment, "^|%s*", ""))
        aliases[alias] = aliases[alias] .. (aliases[alias] ~= "" and "|" or "") .. kind
      else
        lines[#lines + 1] = comment
      end
    else
      local name, arguments = match(line, "^function ([%w_.:]+)(%b())")
      if name then
        local entry = { title = name .. arguments, text = {}, params = {}, returns = {} }
        for i = 1, #lines do
          local parameter, rest = match(lines[i], "^@param (%S+) (.*)$")
          local result = match(lines[i], "^@return (.*)$")
          if parameter then
            local kind, meaning = split_type(rest)
            entry.params[#entry.params + 1] = { name = gsub(parameter, "%?$", ""), type = kind, text = meaning }
          end
          if result then entry.returns[#entry.returns + 1] = (split_type(result)) end
          entry.text[i] = lines[i]
        end
        local owner, rest = match(name, "^(.-)([.:].*)$")
        if owner and owner ~= "rl" then
          name = owner:lower() .. rest
          entry.title = name .. arguments
        end
        functions[plain(name)] = entry
      end
      lines, class, alias = {}, nil, nil
    end
  end
end

for i = 1, select("#", ...) do read((select(i, ...))) end

local reference = { functions = functions, classes = classes, aliases = aliases, plain = plain }

-- The classes that a type names, `runloop.Loop?` for example, aliases looked up.
function reference.classes_in(kind, found)
  found = found or {}
  for name in gmatch(kind or "", "[%a_][%w_.]*") do
    if classes[name] then found[#found + 1] = name end
    if aliases[name] and #found < 20 then reference.classes_in(aliases[name], found) end
  end
  return found
end

-- The texts in quotes that a type allows.
function reference.literals(kind, found)
  found = found or {}
  for text in gmatch(kind or "", '"([^"]*)"') do found[#found + 1] = text end
  for name in gmatch(gsub(kind or "", '"[^"]*"', ""), "[%a_][%w_.]*") do
    if aliases[name] and #found < 100 then reference.literals(aliases[name], found) end
  end
  return found
end

-- The fields of the options that a call takes: those of the class of an argument that is a table, and its name.
function reference.options_of(entry)
  for i = 1, #entry.params do
    for _, name in next, reference.classes_in(entry.params[i].type) do
      if #classes[name].fields > 0 then return classes[name].fields, name end
    end
  end
end

return reference
