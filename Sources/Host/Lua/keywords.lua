-- The reserved words of Lua 5.4, which cannot be names.
local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do keywords[word] = true end
return keywords
