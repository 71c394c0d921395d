-- The results of the codecs for many values and broken texts, a line for each group. The values are the same on every
-- processor.

local state = 1
local function random(n)
  state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
  return (state >> 20) % n
end

local function text(length, alphabet)
  local bytes = {}
  for i = 1, length do
    local at = random(alphabet and #alphabet or 256) + 1
    bytes[i] = alphabet and alphabet:sub(at, at) or string.char(at - 1)
  end
  return table.concat(bytes)
end

local function show(value, depth)
  if type(value) == "table" and (depth or 0) < 8 then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for i, key in ipairs(keys) do keys[i] = tostring(key) .. "=" .. show(value[key], (depth or 0) + 1) end
    return "{" .. table.concat(keys, ",") .. "}"
  end
  if math.type(value) == "float" then return ("%a"):format(value) end
  return type(value) == "userdata" and "userdata" or tostring(value)
end

local sums, good, all = {}, {}, {}
local function note(group, ...)
  local sum = sums[group] or 0xcbf29ce484222325
  for i = 1, select("#", ...) do
    for byte in show((select(i, ...))):gmatch "." do sum = (sum ~ byte:byte()) * 1099511628211 end
    sum = (sum ~ 0xff) * 1099511628211
  end
  sums[group] = sum
end

local function try(group, fn, ...)
  local results = table.pack(pcall(fn, ...))
  all[group] = (all[group] or 0) + 1
  good[group] = (good[group] or 0) + (results[1] and results[2] ~= nil and 1 or 0)
  note(group, table.unpack(results, 1, results.n))
end

for i = 1, 3000 do
  local number = (random(2 ^ 53) - 2 ^ 52) * 10.0 ^ (random(600) - 300)
  try("json.numbers", json.encode, { number, random(2 ^ 62), -random(2 ^ 40), i / 7 })
  try("json.numbers", json.decode, ("[%d.%de%d]"):format(random(10 ^ 15), random(10 ^ 15), random(640) - 320))
  try("json.texts", json.encode, { text(random(40)) })
  try("json.texts", json.decode, '["' .. text(random(30), '\\"u0189afdD bnt/\200\130\168\240\159\152\128') .. '"]')
  try("json.broken", json.decode, text(random(30), '{}[]:,"0123456789.eE+-truefalsnl \n\\'))
  local bytes = text(random(50))
  for _, form in ipairs { "hex", "base64", "base64url", "base32" } do
    try("encoding", encoding.encode, bytes, form)
    try("encoding", encoding.decode, text(random(24), "ABCDabcd0189+/-_= \200"), form)
  end
  try("url", url.parse, text(random(24), "htps:/@?#[]%.10fx\\ \195\188a-"))
  try("url", url.escape, bytes)
  try("url", url.unescape, text(random(20), "%4aGf \200+"))
  try("redis", function()
    local parser, found = redis.parser(1 << 20), {}
    parser:feed(text(random(40), "*$:+-_#,(%~>0123\r\n\r\nab\200"))
    for _ = 1, 10 do
      local shape, value = parser:next()
      if not shape then break end
      found[#found + 1] = { shape, value }
    end
    return found
  end)
  try("redis", redis.encode, { bytes, i, number }, 1, 3)
end

-- These functions need libcrypto and libz for the processor.
for i = 1, zlib.is_there() and 200 or 0 do
  local bytes = text(random(3000), "abcabcabc\200\0")
  try("zlib", zlib.compress, bytes, zlib.formats.gzip, i % 10)
  try("zlib", zlib.decompress, zlib.compress(bytes, zlib.formats.zlib, 6), zlib.formats.any, 1 << 20)
  try("zlib", zlib.decompress, bytes, zlib.formats.any, 1 << 20)
end
if crypto.hash("md5", "", "hex") then
  for _ = 1, 200 do
    local bytes = text(random(300))
    for _, name in ipairs { "md5", "sha1", "sha256", "sha512" } do
      try("crypto", crypto.hash, name, bytes, "hex")
      try("crypto", crypto.hmac, name, text(random(200)), bytes, "base64")
    end
  end
end

local names = {}
for group in pairs(sums) do names[#names + 1] = group end
table.sort(names)
for _, group in ipairs(names) do
  print(("%-14s %016x  %d of %d with a result"):format(group, sums[group], good[group], all[group]))
end
