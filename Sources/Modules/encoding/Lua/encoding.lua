-- runloop.encoding: bytes as text and back. The codecs are written in C.

local native = ...
local misuse = require "runloop.misuse"
local codecs = native.open(misuse)
local encoding = { encode = codecs.encode }

local OPTIONS <const> = { lenient = "boolean" }

function encoding.decode(text, form, options)
  return codecs.decode(text, form, misuse.options(options, OPTIONS, "encoding.decode", 3).lenient)
end

return encoding
