-- The words that are no names in Lua 5.4.
local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do keywords[word] = true end
return keywords
