-- runloop.encoding: the forms of RFC 4648, the texts that they refuse, and those that a lenient reader accepts.

local t = require "runloop.test"
local encoding = require "runloop.encoding"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of
local encode, decode = encoding.encode, encoding.decode

local FORMS = { "hex", "base64", "base64url", "base32" }

-- Chapter 10 of RFC 4648.
local VECTORS = {
  { "", "", "", "" },
  { "f", "66", "Zg==", "MY======" },
  { "fo", "666f", "Zm8=", "MZXQ====" },
  { "foo", "666f6f", "Zm9v", "MZXW6===" },
  { "foob", "666f6f62", "Zm9vYg==", "MZXW6YQ=" },
  { "fooba", "666f6f6261", "Zm9vYmE=", "MZXW6YTB" },
  { "foobar", "666f6f626172", "Zm9vYmFy", "MZXW6YTBOI======" },
}

t.it("encode and decode follow the vectors of RFC 4648", function()
  for _, vector in ipairs(VECTORS) do
    local bytes, hex, base64, base32 = table.unpack(vector)
    local url = base64:gsub("=", "")
    for form, text in pairs { hex = hex, base64 = base64, base64url = url, base32 = base32 } do
      t.equal(encode(bytes, form), text)
      t.equal(decode(text, form), bytes)
    end
    t.equal(decode(hex:upper(), "hex"), bytes)
    t.equal(decode(base64, "base64url"), bytes)
  end
  t.equal(encode("\xfb\xff\xbe", "base64"), "+/++")
  t.equal(encode("\xfb\xff\xbe", "base64url"), "-_--")
  t.equal(decode("-_--", "base64url"), "\xfb\xff\xbe")
end)

-- Encodes bit by bit, as the RFC describes it.
local LETTERS = {
  hex = "0123456789abcdef", base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
  base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
  base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
}
local WIDTHS, GROUPS = { hex = 4, base64 = 6, base64url = 6, base32 = 5 }, { hex = 1, base64 = 4, base64url = 1,
  base32 = 8 }

local function slowly(bytes, form)
  local word, bits, text, width = 0, 0, {}, WIDTHS[form]
  for i = 1, #bytes do
    word, bits = word << 8 | bytes:byte(i), bits + 8
    while bits >= width do
      bits = bits - width
      local place = word >> bits & (1 << width) - 1
      text[#text + 1] = LETTERS[form]:sub(place + 1, place + 1)
    end
    word = word & (1 << bits) - 1
  end
  if bits > 0 then
    local place = word << width - bits
    text[#text + 1] = LETTERS[form]:sub(place + 1, place + 1)
  end
  return table.concat(text) .. ("="):rep(-#text % GROUPS[form])
end

t.it("random bytes are encoded as by the RFC's algorithm, and decoded back", function()
  for length = 0, 300 do
    local bytes = {}
    for i = 1, length do bytes[i] = string.char(math.random(0, 255)) end
    bytes = table.concat(bytes)
    for _, form in ipairs(FORMS) do
      local text = slowly(bytes, form)
      t.equal(encode(bytes, form), text)
      t.equal(decode(text, form), bytes)
      t.equal(decode(text:gsub("..", "%0\r\n "):gsub("=", ""), form, { lenient = true }), bytes)
    end
  end
end)

t.it("a text of a megabyte is decoded", function()
  local bytes = ("0123456789abcdef"):rep(65536)
  for _, form in ipairs(FORMS) do t.equal(decode(encode(bytes, form), form), bytes) end
end)

-- The form, the text, the problem.
local REFUSED = {
  { "base64", "Zm9v*mFy", "base64: byte 5 is '*'" },
  { "base64", "Zm9v YmFy", "base64: byte 5 is ' '" },
  { "base64", "Zm9v\nYmFy", "base64: byte 5 is 0x0A" },
  { "base64", "Zm9\xc3", "base64: byte 4 is 0xC3" },
  { "base64", "-_--", "base64: byte 1 is '-'" },
  { "base64url", "+/++", "base64url: byte 1 is '+'" },
  { "base64", "Zm9vY", "base64: cut off after byte 5" },
  { "base64", "Zg", "base64: the padding is missing at byte 2" },
  { "base64", "Zg=", "base64: the padding is missing at byte 3" },
  { "base64", "Zg===", "base64: too much padding at byte 5" },
  { "base64", "Zm9v=", "base64: byte 5 is '='" },
  { "base64", "Zg==Zg==", "base64: byte 5 is 'Z', behind the padding" },
  { "base64", "Zh==", "base64: byte 2 is 'h', whose unused bits are not 0" },
  { "base64", "=", "base64: byte 1 is '='" },
  { "base64url", "Zg=", "base64url: the padding is missing at byte 3" },
  { "base64url", "Zh", "base64url: byte 2 is 'h', whose unused bits are not 0" },
  { "base32", "my======", "base32: byte 1 is 'm'" },
  { "base32", "MZX", "base32: cut off after byte 3" },
  { "base32", "MZXW6YQ", "base32: the padding is missing at byte 7" },
  { "base32", "M1======", "base32: byte 2 is '1'" },
  { "hex", "666", "hex: cut off after byte 3" },
  { "hex", "66 6f", "hex: byte 3 is ' '" },
  { "hex", "6g", "hex: byte 2 is 'g'" },
}

t.it("decode rejects a text that is not in the form, and names the place", function()
  for _, case in ipairs(REFUSED) do
    local form, text, problem = table.unpack(case)
    t.equal({ decode(text, form) }, { nil, problem, "EBADMSG" })
  end
end)

t.it("lenient decoding accepts blanks, missing padding and small letters of base32", function()
  local lenient = { lenient = true }
  t.equal(decode(" Zm9v\r\n\tYg\n", "base64", lenient), "foob")
  t.equal(decode("Zm9vYg=", "base64", lenient), "foob")
  t.equal(decode("mzxw 6yq", "base32", lenient), "foob")
  t.equal(decode("66 6F", "hex", lenient), "fo")
  t.equal({ decode("Zm9v*", "base64", lenient) }, { nil, "base64: byte 5 is '*'", "EBADMSG" })
  t.equal(select(3, decode("Zh", "base64", lenient)), "EBADMSG")
  t.equal(select(3, decode("Zm9vY", "base64", lenient)), "EBADMSG")
end)

t.it("different texts are never decoded to the same bytes", function()
  local seen = {}
  for first = 32, 126 do
    for second = 32, 126 do
      local text = string.char(first, second) .. "=="
      local bytes = decode(text, "base64")
      t.falsy(bytes and seen[bytes])
      if bytes then seen[bytes] = text end
    end
  end
end)

t.it("wrong arguments raise errors with the nearest form", function()
  t.equal(problem_of(encode, 5, "hex"), "encoding.encode: argument #1 must be a string, got 5")
  t.equal(problem_of(encode, "x"), "encoding.encode: argument #2 must be the name of a form, got nothing")
  t.equal(problem_of(encode, "x", "base46"), "encoding.encode: unknown form 'base46' (did you mean 'base64'?)")
  t.equal(problem_of(decode, {}, "hex"), "encoding.decode: argument #1 must be a string, got a table")
  t.equal(problem_of(decode, "", "hax"), "encoding.decode: unknown form 'hax' (did you mean 'hex'?)")
  t.equal(problem_of(decode, "", "hex", { lenent = true }),
    "encoding.decode: unknown field 'lenent' (did you mean 'lenient'?)")
  t.equal(problem_of(decode, "", "hex", { lenient = 1 }),
    "encoding.decode: field 'lenient' must be a boolean, got 1")
end)

t.it("the module works in every thread", function()
  local rl = require "runloop"
  t.equal(rl.blocking(function(text) return require "runloop.encoding".encode(text, "hex") end, "abc"), "616263")
end)
