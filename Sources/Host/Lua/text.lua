-- runloop.text: text from outside, for readers that expect UTF-8 and for people at a terminal.

local utf8_len = utf8 and utf8.len
local sub, gsub, find = string.sub, string.gsub, string.find
local rep, byte, format = string.rep, string.byte, string.format
local concat = table.concat

local text = {}

--- Returns the number of characters of a text; nil if it is not UTF-8. Works even if the script has removed utf8.len.
function text.length_of(text)
  if not find(text, "[\128-\255]") then return #text end
  local at, count, size = 1, 0, #text
  while at <= size do
    local c = byte(text, at)
    local tail = c < 0x80 and 0 or c >= 0xC2 and c < 0xE0 and 1 or c >= 0xE0 and c < 0xF0 and 2
      or c >= 0xF0 and c < 0xF5 and 3
    if not tail or not find(text, "^" .. rep("[\128-\191]", tail), at + 1) then return nil end
    at, count = at + tail + 1, count + 1
  end
  return count
end

local function replaced() return "\u{FFFD}" end

--- Returns the text with each byte that is not UTF-8 replaced: by U+FFFD, or by the result of `replacement(byte)`.
function text.valid(bytes, replacement)
  replacement = replacement or replaced
  if not utf8_len then return text.length_of(bytes) and bytes or (gsub(bytes, "[\128-\255]", replacement)) end
  local parts, at = {}, 1
  while true do
    local length, bad = utf8_len(bytes, at)
    if length then return at == 1 and bytes or concat(parts) .. sub(bytes, at) end
    parts[#parts + 1] = sub(bytes, at, bad - 1)
    parts[#parts + 1] = replacement(sub(bytes, bad, bad))
    at = bad + 1
  end
end

local NAMES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local function escape(c) return NAMES[c] or format("\\x%02x", byte(c)) end
local function escape_all(character) return (gsub(character, ".", escape)) end

-- Patterns for control characters beyond ASCII, direction marks, and line and paragraph separators.
local TRICKS = { "\xC2[\x80-\x9F]", "\xD8\x9C", "\xE2\x80[\x8E\x8F\xA8-\xAE]", "\xE2\x81[\xA6-\xA9]" }

local function replace_tricks(bytes, replacement)
  if not find(bytes, "[\xC2\xD8\xE2]") then return bytes end
  for i = 1, #TRICKS do bytes = gsub(bytes, TRICKS[i], replacement) end
  return bytes
end

--- Returns the text with escapes such as \x1b or \xe2\x80\xae for characters that control a terminal or reverse the
--- direction of text, and for bytes that are not UTF-8. With `keeps_lines`, line breaks and tabs stay.
function text.shown(bytes, keeps_lines)
  if not find(bytes, "[%c\128-\255]") then return bytes end
  bytes = gsub(text.valid(bytes, escape), keeps_lines and "[^\n\t\32-\126\128-\255]" or "%c", escape)
  return replace_tricks(bytes, escape_all)
end

-- Returns U+009B as \u009b.
local function escape_in_json(character)
  local first, second, third = byte(character, 1, 3)
  local code = third and (first & 15) << 12 | (second & 63) << 6 | third & 63 or (first & 31) << 6 | second & 63
  return format("\\u%04x", code)
end

--- Escapes the same characters in valid JSON, without changing its meaning.
function text.shown_json(json)
  return replace_tricks(gsub(json, "\127", "\\u007f"), escape_in_json)
end

return text
