-- runloop.zlib: gzip and related formats, by the system's libz: whole texts, and stages for streams.

local native = ...
local misuse = require "runloop.misuse"
local library = native.open(misuse)

local zlib = {}

local COMPRESSING <const> = { format = "string", level = "count" }
local DECOMPRESSING <const> = { format = "string", max = "count" }
local FORMATS <const> = { gzip = library.formats.gzip, zlib = library.formats.zlib, raw = library.formats.raw }

local function format_of(options, formats, default, what)
  local name = options.format or default
  return formats[name] or misuse.unknown_name(what, "format", name, formats)
end

local function compressing(options, what, number)
  options = misuse.options(options, COMPRESSING, what, number)
  local level = options.level or 6
  if level > 9 then misuse.wrong(what, "field 'level'", "an integer from 0 to 9", level) end
  return format_of(options, FORMATS, "gzip", what), level
end

local function decompressing(options, what, number)
  options = misuse.options(options, DECOMPRESSING, what, number)
  return format_of(options, library.formats, "any", what), options.max
end

function zlib.compress(data, options)
  return library.compress(data, compressing(options, "zlib.compress", 2))
end

function zlib.decompress(data, options)
  local format, max = decompressing(options, "zlib.decompress", 2)
  return library.decompress(data, format, max or 16 << 20)
end

function zlib.compressor(options)
  return library.stage(true, compressing(options, "zlib.compressor", 1))
end

function zlib.decompressor(options)
  local format, max = decompressing(options, "zlib.decompressor", 1)
  return library.stage(false, format, 0, max)
end

return zlib
