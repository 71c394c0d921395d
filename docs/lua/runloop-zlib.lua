---@meta runloop.zlib

-- Every call of the module `runloop.zlib`: gzip and related formats, by the system's libz. None of them waits. Without
-- libz they give nil, `"ENOENT: libz.so.1 is not installed (apt install zlib1g)"`, `"ENOENT"`. Every thread may use the
-- module; a stage belongs to the thread that made it.

---@class runloop.zlib
local zlib = {}

---@class runloop.zlib.CompressOptions
---@field format? "gzip"|"zlib"|"raw" "gzip" if absent
---@field level? integer 0 (stored) and 1 (fast) to 9 (small); 6 if absent

---Compresses a text.
---@param data string
---@param options? runloop.zlib.CompressOptions
---@return string? bytes
---@return string? problem
---@return string? code
function zlib.compress(data, options) end

---@class runloop.zlib.DecompressOptions
---@field format? "any"|"gzip"|"zlib"|"raw" "any" if absent: gzip or zlib, by the first bytes
---@field max? integer the largest number of bytes that may come out; 16 MB if absent, for stages no limit

---Decompresses a text. Several gzip members, as from `cat a.gz b.gz`, are read one after the other.
---
---Other data gives nil, a problem with the place, and a code: "EBADMSG" if it is damaged or bytes follow its end, "EOF"
---if it is cut off, "EMSGSIZE" if more than `max` bytes come out.
---@param data string
---@param options? runloop.zlib.DecompressOptions
---@return string? bytes
---@return string? problem
---@return string? code
function zlib.decompress(data, options) end

---A stage for `net.copy { through = stage }`. A script can also call it: a call with bytes returns the output so far,
---and a call without arguments, at the end, returns the rest. Failures are nil, problem, code as from `decompress`. The
---second result of a decompressor is true while a call with `""` can return more, so that a small input that expands
---greatly does not fill the memory.
---@alias runloop.zlib.Stage fun(bytes?: string): string?, (boolean|string)?, string?

---Makes a stage that compresses.
---@param options? runloop.zlib.CompressOptions
---@return runloop.zlib.Stage? stage
---@return string? problem
---@return string? code
function zlib.compressor(options) end

---Makes a stage that decompresses.
---@param options? runloop.zlib.DecompressOptions
---@return runloop.zlib.Stage? stage
---@return string? problem
---@return string? code
function zlib.decompressor(options) end

return zlib
