-- runloop.hints: texts that lead from a name that does not exist to the one that is meant. It is loaded at the first
-- mistake.

local native = ...
local meanings = require "runloop.meanings"
local nearest = require "runloop.misuse".nearest
local ipairs, match = ipairs, string.match

local hints = {}

--- Returns the line that `require` adds to the error for an unknown module, or nil if no public module is meant.
function hints.module(name)
  local modules, words = {}, {}
  for _, module in ipairs(native.modules()) do
    modules[module] = true
    words[match(module, "^runloop%.(.+)$") or module] = true
  end
  local meant = meanings.modules[name]
  local word = match(name, "^runloop%.(.+)$") or match(name, "^rl%.(.+)$") or match(name, "^rlhost%.(.+)$")
  if not meant and word then
    meant = meanings.modules[word] or "runloop." .. (words[word] and word or nearest(word, words) or "")
  elseif not meant then
    meant = nearest(name, modules)
  end
  return modules[meant] and "there is " .. meant or nil
end

return hints
