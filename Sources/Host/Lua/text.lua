-- runloop.text: what those need who write for readers that expect UTF-8.

local len, sub, concat = utf8.len, string.sub, table.concat

local text = {}

local function replaced() return "\u{FFFD}" end

-- The same text with something in the place of each byte that is no UTF-8: U+FFFD, or what `replacement(byte)` returns.
function text.valid(bytes, replacement)
  local parts, at = {}, 1
  while true do
    local length, bad = len(bytes, at)
    if length then return at == 1 and bytes or concat(parts) .. sub(bytes, at) end
    parts[#parts + 1] = sub(bytes, at, bad - 1)
    parts[#parts + 1] = (replacement or replaced)(sub(bytes, bad, bad))
    at = bad + 1
  end
end

return text
