-- runloop.url beside Node's URL: random texts and links, 20,000 of them with RLHOST_SOAK=1. Without node the test is
-- skipped.

local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"
local url = require "runloop.url"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")

local COUNT <const> = tonumber(os.getenv "COUNT") or os.getenv "RLHOST_SOAK" and 20000 or 2000

local function any(list) return list[math.random(#list)] end
local function maybe(text, chance) return math.random() < (chance or 0.5) and text or "" end

local SPECIAL <const> = { "http:", "https:", "HTTP:", "ws:", "wss:", "ftp:", "file:" }
local OTHERS <const> = { "foo:", "javascript:", "data:", "mailto:", "a+b.1-c:", "1x:", "" }
local SLASHES <const> = { "//", "//", "//", "//", "//", "/", "", "///", "\\\\", "/\\", "////" }
local HOSTS <const> = {
  "example.com", "EXAMPLE.Com", "a", "a.b.c", "127.0.0.1", "0x7f.1", "0300.1", "256", "1.2.3", "1.2.3.4.5", "1..2",
  "09.1", "0x", "4294967295", "4294967296", "a.0x1", "1.2.3.4.", "a..", ".", "..", "[::1]", "[1:2:3:4:5:6:7:8]",
  "[1::8]", "[::]", "[::ffff:1.2.3.4]", "[1:2:3:4:5:6:7::]", "[1::2::3]", "[12345::]", "[::1", "[0:0:0:1:0:0:0:1]",
  "[::1.2.3]", "[1:2]", "[]", "", "bücher.example", "BÜCHER.de", "faß.de", "日本語.jp", "пример.рф", "☃.net", "a。b",
  "１２７.1", "%41b", "%C3%A9.fr", "a%20b", "a b", "a_b", "a--b", "xn--bcher-kva.de", "xn--a", "XN--E1AFMKFD.com", "a!b",
  "a^b", "a|b", "a<b", "a%b", "a%00", "localhost", "C:", "C|", "é", "a\u{AD}b", "a\127b", "ab\u{1F600}", "-a-", "xn--",
  "ａｂ", "a*b", "~$&'()+,;=a",
}
local PORTS <const> = {
  ":80", ":443", ":8080", ":", ":0", ":65535", ":65536", ":00080", ":8a", ":21", ":-1", ": 80",
}
local SEGMENTS <const> = {
  "a", "b c", "", "C:", "C|", "é", "a;p=1", "x@y", "a:b", "%41", "%zz", "%", "~", "{x}", "[x]", "^", "`", "|", "\"",
  "<>", "'", "...", "\1", "\127", "日", "a\tb", "\\", "*", "+", "!$&()", "a.b",
}
local DOTS <const> = { ".", "..", "%2e", "%2E%2e", ".%2e" }
local TEXTS <const> = { "a=b", "a b", "'\"", "<>", "é", "?", "`{}|^", "%zz%41", "\1\127", "a\nb", "/..", "\\" }

-- Node 20 differs from the standard in four points, which the texts avoid: an empty query of a base is dropped; dots at
-- the end of a path without a special scheme leave no slash; a segment such as "a:b" counts as a drive; and a link with
-- a '#' may be relative to a base without a path. International labels with symbols such as '+' are not in any DNS.
local function segment(is_special, is_file)
  local made
  repeat
    made = is_special and math.random(5) == 1 and any(DOTS) or any(SEGMENTS)
  until not (is_file and made:find "^%a[:|].")
  return made
end

local function path(is_special, is_file)
  local parts = {}
  for i = 1, math.random(0, 4) do parts[i] = segment(is_special, is_file) end
  return table.concat(parts, math.random(20) == 1 and "\\" or "/")
end

local function host() return any(HOSTS) .. maybe(any(PORTS), 0.3) end

local function authority()
  local user = math.random(6) == 1
    and any { "u", "u:p", ":p", "u:", ":", "a@b", "é:%41", "a b:c|d", "", "u;=:[^]" } .. "@" or ""
  return user .. host()
end

local function rest(is_special, is_file)
  return path(is_special, is_file) .. maybe("?" .. any(TEXTS), 0.3) .. maybe("#" .. any(TEXTS), 0.3)
end

local function text(is_special)
  local scheme, slashes = any(is_special and SPECIAL or OTHERS), any(SLASHES)
  local separator = slashes ~= "" and "/" or maybe("/", 0.8)
  local middle = #slashes > 1 and not (scheme == "file:" and #slashes > 2) and authority() or ""
  -- Without a host, a path that begins like a host would be read as a host.
  local made = scheme .. slashes .. middle .. separator .. rest(is_special, scheme == "file:" or middle == "")
  return maybe(any { " ", "\t", "\0 " }, 0.05) .. made .. maybe(any { " ", "\n", " \1" }, 0.05)
end

local function link(is_file)
  local kind = math.random(6)
  if kind == 1 then return text(true) end
  local made
  if kind == 2 then
    local slashes = any { "//", "\\\\", "/\\", "///" }
    -- After three slashes in a file URL this is a path, and Node takes "u:" at its start for a drive.
    repeat made = authority() until not (is_file and slashes == "///" and made:find "^%a:")
    return slashes .. made .. "/" .. rest(true, is_file)
  end
  -- "C:" at the start would be a scheme.
  repeat made = maybe("/", 0.3) .. rest(true, is_file) until not made:find "^%a:"
  return made
end

local function case(number)
  if number % 2 == 0 then return { text(math.random(3) > 1) } end
  local base = text(true)
  return { base, link(base:lower():find "^%s*file:" ~= nil) }
end

local SCRIPT <const> = [[
const lines = require("fs").readFileSync(process.argv[2], "utf8").split("\n").filter((line) => line)
console.log(JSON.stringify(lines.map((line) => {
  const [base, link] = JSON.parse(line)
  try {
    const u = link === undefined ? new URL(base) : new URL(link, base)
    return [u.href, u.protocol, u.username, u.password, u.hostname, u.port, u.pathname, u.search, u.hash]
  } catch { return null }
})))
]]

local function compared(cases)
  local directory, place <close> = support.directory()
  local lines = {}
  for i, case in ipairs(cases) do lines[i] = json.encode(json.array(case)) end
  assert(fs.write(directory .. "/cases", table.concat(lines, "\n")))
  assert(fs.write(directory .. "/script.js", SCRIPT))
  local result = assert(process.run { "node", directory .. "/script.js", directory .. "/cases" })
  t.equal(result.code, 0, result.errors)
  return json.decode(result.output)
end

local function sign(text, before, after) return text and text ~= "" and before .. text .. after or "" end

local function parts_of(u)
  return { tostring(u), u.scheme .. ":", u.user or "", u.password or "", u.host or "",
    u.port and tostring(u.port) or "", u.path,
    sign(u.query, "?", ""), sign(u.fragment, "#", "") }
end

local has_node = process.run { "node", "--version" } ~= nil
local it = has_node and t.it or function(name, _, body) t.skip(name .. ": node is not installed", body) end

it("url.parse and url.join return the results of Node for random URLs", { real_time = true, timeout = 300 }, function()
  local cases = {}
  for i = 1, COUNT do cases[i] = case(i) end
  local answers, odd = compared(cases), {}
  for i, case in ipairs(cases) do
    local expected, got = answers[i], nil
    if case[2] then
      got = url.join(case[1], case[2])
      expected = expected ~= json.null and expected[1] or nil
    else
      local u = url.parse(case[1])
      got, expected = u and json.encode(parts_of(u)) or nil, expected ~= json.null and json.encode(expected) or nil
    end
    if got ~= expected and #odd < 20 then
      odd[#odd + 1] = ("%q %q: %s, Node %s"):format(case[1], case[2] or "", tostring(got), tostring(expected))
    end
  end
  t.equal(odd, {})
end)
