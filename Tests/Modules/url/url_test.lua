-- runloop.url: the parts and the normal forms of URLs, links, queries, and wrong arguments.

local t = require "runloop.test"
local url = require "runloop.url"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of

-- Texts and their normal forms; nil for texts that have none. Node 20 agrees with all.
local NORMAL = {
  { "http://example.com", "http://example.com/" }, { "HTTPS://User@EXAMPLE.com:443/A", "https://User@example.com/A" },
  { "  http://x/ a ", "http://x/%20a" }, { "ht\ntp://x/\ty", "http://x/y" }, { "http:\\\\x\\y", "http://x/y" },
  { "http:///x", "http://x/" }, { "http:x", "http://x/" }, { "http://x?", "http://x/?" },
  { "http://x#", "http://x/#" },
  { "http://x/a/./b/../c/%2e%2E/d/%2e", "http://x/a/d/" }, { "http://x/../..", "http://x/" },
  { "http://x/^ \"<>`{}|\\y?'\"#<>` {}^|'", "http://x/^%20%22%3C%3E%60%7B%7D|/y?%27%22#%3C%3E%60%20{}^|'" },
  { "foo://x/^ \"<>`{}|\\y?'\"#<>` {}^|'", "foo://x/^%20%22%3C%3E%60%7B%7D|\\y?'%22#%3C%3E%60%20{}^|'" },
  { "http://us^er|:p'w@h/", "http://us%5Eer%7C:p'w@h/" }, { "http://a@b@c/", "http://a%40b@c/" },
  { "http://:@x", "http://x/" }, { "http://:p@x", "http://:p@x/" }, { "http://user@/x" }, { "http://" },
  { "http://@" },
  { "http://x:0443/", "http://x:443/" }, { "https://x:0443/", "https://x/" }, { "http://x:/", "http://x/" },
  { "http://x:65536" }, { "http://x:8a" }, { "http://:80" }, { "ws://x:80", "ws://x/" }, { "ftp://x:21", "ftp://x/" },
  { "http://0x7f.1", "http://127.0.0.1/" }, { "http://256", "http://0.0.1.0/" }, { "http://4294967296" },
  { "http://1.2.3.08" }, { "http://1.2.3.4.5" }, { "http://1.2.3.4.", "http://1.2.3.4/" }, { "http://1.256.3.4" },
  { "http://0x.0x", "http://0.0.0.0/" }, { "http://a.0x" }, { "http://09a", "http://09a/" },
  { "http://[::1.2.3.4]/", "http://[::102:304]/" }, { "http://[1::8:0:0:0]", "http://[1::8:0:0:0]/" },
  { "http://[1:2:3:4:5:6:7::]", "http://[1:2:3:4:5:6:7:0]/" }, { "http://[::]", "http://[::]/" },
  { "http://[0:0:1::2:0:0]", "http://[::1:0:0:2:0:0]/" }, { "http://[::1" }, { "http://[1::2::3]" },
  { "http://[::1%25eth0]/" }, { "http://[::1.2.3]" }, { "http://[12345::]" }, { "http://[::127.0.0.01]" },
  { "http://a b/" }, { "http://a<b" }, { "http://a\127" }, { "http://a%00" }, { "http://%zz" },
  { "http://ex!ample.com/", "http://ex!ample.com/" }, { "http://a%41.com", "http://aa.com/" },
  { "http://h..", "http://h../" }, { "http://a_b.c", "http://a_b.c/" }, { "http://ab--cd.de", "http://ab--cd.de/" },
  { "http://bücher.example", "http://xn--bcher-kva.example/" }, { "http://faß.de", "http://xn--fa-hia.de/" },
  { "http://☃.net", "http://xn--n3h.net/" }, { "http://１２７.1", "http://127.0.0.1/" },
  { "http://a。b", "http://a.b/" }, { "http://a\u{AD}b.com", "http://ab.com/" },
  { "http://İ.com", "http://xn--i-9bb.com/" },
  { "http://a..é", "http://a..xn--9ca/" }, { "http://😀.com", "http://xn--e28h.com/" }, { "http://xn--a" },
  { "http://xn--e1afmkfd.com", "http://xn--e1afmkfd.com/" }, { "http://אa.com" },
  { "foo:/.//bar", "foo:/.//bar" }, { "foo:////x", "foo:////x" }, { "foo://éx/", "foo://%C3%A9x/" },
  { "foo://h", "foo://h" }, { "foo://", "foo://" }, { "foo://a b" }, { "foo:a/../b", "foo:a/../b" },
  { "foo:/a/../b/..", "foo:/" }, { "javascript:alert(1) x", "javascript:alert(1) x" },
  { "data:x  ?q  #f ", "data:x  ?q%20%20#f" }, { "mailto:a@b", "mailto:a@b" },
  { "file:", "file:///" }, { "file:x", "file:///x" }, { "file://localhost/x", "file:///x" },
  { "file:///C|/../x", "file:///C:/x" }, { "file://C:/x", "file:///C:/x" }, { "file:/C:/..", "file:///C:/" },
  { "file://a:80/" }, { "file:////x", "file:////x" }, { "file://host/x", "file://host/x" },
  { "" }, { "x" }, { "//x" }, { "1a:b" }, { "a+b.c-1:x", "a+b.c-1:x" }, { ":x" },
}

t.it("a URL has the normal form that browsers use", function()
  for _, case in ipairs(NORMAL) do
    local text, normal = table.unpack(case)
    local u, problem, code = url.parse(text)
    t.equal(u and tostring(u), normal, text)
    if not u then
      t.equal(code, "EINVAL")
      t.truthy(problem:find "^EINVAL: ")
    else
      t.equal(tostring(url.parse(normal)), normal)
    end
  end
end)

t.it("a URL has its parts without their delimiters, and nil for absent ones", function()
  local function parts(text)
    local copy = {}
    for name, value in pairs(url.parse(text)) do copy[name] = value end
    return copy
  end
  t.equal(parts "https://u:p@h:8443/a?b#c", { scheme = "https", user = "u", password = "p", host = "h", port = 8443,
    path = "/a", query = "b", fragment = "c" })
  t.equal(parts "http://h:80", { scheme = "http", host = "h", path = "/" })
  t.equal(parts "http://h?#", { scheme = "http", host = "h", path = "/", query = "", fragment = "" })
  t.equal(parts "mailto:a@b", { scheme = "mailto", path = "a@b" })
  t.equal(parts "file:///x", { scheme = "file", host = "", path = "/x" })
  t.equal(parts "foo:/.//x", { scheme = "foo", path = "//x" })
end)

t.it("a URL with changed parts has the normal form", function()
  local u = url.parse "http://h/a?b#c"
  u.host, u.port, u.path, u.query, u.fragment = "BÜCHER.example", 8080, "/x y/../z?#", "a b'", "é"
  t.equal(tostring(u), "http://xn--bcher-kva.example:8080/z%3F%23?a%20b%27#%C3%A9")
  u.host, u.port, u.path, u.query, u.fragment = "[::0:1]", 80, "no/slash", nil, nil
  t.equal(tostring(u), "http://[::1]/no/slash")
  u.port, u.path = 81.0, "\\a\\b"
  t.equal(tostring(u), "http://[::1]:81/a/b")
  u.port, u.path = 80, "no/slash"
  u.user, u.password = "a:b@c", "d/e"
  t.equal(tostring(u), "http://a%3Ab%40c:d%2Fe@[::1]/no/slash")
  u.scheme = "HTTPS"
  t.equal(tostring(u), "https://a%3Ab%40c:d%2Fe@[::1]:80/no/slash")
  local mail = url.parse "mailto:a@b"
  mail.path, mail.query = "c@d", "subject=x y"
  t.equal(tostring(mail), "mailto:c@d?subject=x%20y")
  local foo = url.parse "foo:/x"
  foo.path = "//x"
  t.equal(tostring(foo), "foo:/.//x")
end)

t.it("an invalid part raises an error", function()
  local function problem(field, value, text)
    local u = url.parse(text or "http://h/a")
    return problem_of(function()
      u[field] = value
      return tostring(u)
    end)
  end
  t.equal(problem("port", 70000), "url: field 'port' must be an integer from 0 to 65535, got 70000")
  t.equal(problem("port", "80"), "url: field 'port' must be an integer from 0 to 65535, got \"80\"")
  t.equal(problem("port", 0 / 0), "url: field 'port' must be an integer from 0 to 65535, got nan")
  t.equal(problem("host", "a b"), "url: field 'host': the host has a blank")
  t.equal(problem("host", "a/b"), "url: field 'host' has a '/'")
  t.equal(problem("host", "a:1"), "url: field 'host' has a ':'")
  t.equal(problem("host", nil), "url: field 'host' is missing")
  t.equal(problem("host", 5), "url: field 'host' must be a string, got 5")
  t.equal(problem("path", 5), "url: field 'path' must be a string, got 5")
  t.equal(problem("scheme", nil), "url: field 'scheme' is missing")
  t.equal(problem("scheme", "1x"), "url: field 'scheme' must be letters, digits, '+', '-' and '.', got '1x'")
  t.equal(problem("scheme", "a:b"), "url: field 'scheme' must be letters, digits, '+', '-' and '.', got 'a:b'")
  t.equal(problem("user", "x", "mailto:a@b"), "url: field 'user' needs a host, and not a file URL")
  t.equal(problem("hots", "x"), "url: unknown field 'hots' (did you mean 'host'?)")
end)

-- The base, the link, and the resulting URL; nil for an invalid link.
local LINKS = {
  { "http://a/b/c/d;p?q", "g", "http://a/b/c/g" }, { "http://a/b/c/d;p?q", "./g/", "http://a/b/c/g/" },
  { "http://a/b/c/d;p?q", "/g", "http://a/g" }, { "http://a/b/c/d;p?q", "//g", "http://g/" },
  { "http://a/b/c/d;p?q", "?y", "http://a/b/c/d;p?y" }, { "http://a/b/c/d;p?q", "#s", "http://a/b/c/d;p?q#s" },
  { "http://a/b/c/d;p?q", "", "http://a/b/c/d;p?q" }, { "http://a/b/c/d;p?q", "../..", "http://a/" },
  { "http://a/b/c/d;p?q", "../../../g", "http://a/g" }, { "http://a/b/c/d;p?q", "http:g", "http://a/b/c/g" },
  { "http://a/b/c/d;p?q", "https:g", "https://g/" }, { "http://u:p@a:8/b", "\\c", "http://u:p@a:8/c" },
  { "http://a/b?q#f", "c", "http://a/c" }, { "mailto:x", "y" }, { "mailto:x?q", "#f", "mailto:x?q#f" },
  { "foo://h", "x", "foo://h/x" }, { "foo:/a/b", "..", "foo:/" }, { "file:///C:/a/b", "/x", "file:///C:/x" },
  { "file:///C:/a/b", "D|/x", "file:///D:/x" }, { "file:///C:/a/b", "../../..", "file:///C:/" },
  { "file:///a/b", "//h/c", "file://h/c" }, { "http://a/b", "mailto:x", "mailto:x" }, { "nothing", "x" },
  { "http://a/b", "http://c d/" },
}

t.it("url.join resolves links", function()
  for _, case in ipairs(LINKS) do
    local base, link, where = table.unpack(case)
    local text, _, code = url.join(base, link)
    t.equal(text, where, base .. " and " .. link)
    t.equal(code, not where and "EINVAL" or nil)
  end
  local u = url.parse "http://a/b"
  u.path = "/c/d"
  t.equal(url.join(u, "e"), "http://a/c/e")
  t.equal(url.join("http://x", u), "http://a/c/d")
end)

t.it("the error for an invalid URL names the mistake", function()
  t.equal({ url.parse "http://a b/" }, { nil, "EINVAL: the host has a blank (http://a b/)", "EINVAL" })
  t.equal(select(2, url.parse "x"), "EINVAL: there is no scheme, such as https: (x)")
  t.equal(select(2, url.parse "http://x:99999"), "EINVAL: the port is above 65535 (http://x:99999)")
  t.equal(select(2, url.join("mailto:a", "b")), "EINVAL: the base has no path to which it could be relative (b)")
end)

t.it("url.query makes a query, and url.parse_query reads it", function()
  t.equal(url.query { b = 1, a = { "x y", true }, ["ü&"] = "=" }, "a=x+y&a=true&b=1&%C3%BC%26=%3D")
  t.equal(url.query({ a = 1 }, {}, { b = 2 }), "a=1&b=2")
  t.equal(url.query {}, "")
  t.equal({ url.parse_query "a=1&b=x+y%21&a=2&&c&=d" },
    { { a = "1", b = "x y!", c = "", [""] = "d" }, { a = { "1", "2" }, b = { "x y!" }, c = { "" }, [""] = { "d" } } })
  t.equal((url.parse_query "a=%zz"), { a = "%zz" })
  t.equal((url.parse_query "q=50%+off%21%&%4=%4"), { q = "50% off!%", ["%4"] = "%4" })
  t.equal(url.escape "a b/é", "a%20b%2F%C3%A9")
  t.equal(url.unescape "a%20b+", "a b+")
  t.equal(url.unescape "%2", nil)
end)

t.it("runloop.http accepts a URL in place of a text", function()
  local client = t.http(function(request) return request.target end)
  local u = url.parse "http://test/a b?c"
  t.equal(client:get(u).body, "/a%20b?c")
  t.equal(client:fetch({ u }).body, "/a%20b?c")
  t.equal(client:fetch({ url = u, method = "PUT" }).body, "/a%20b?c")
  t.equal(client:fetch(u).body, "/a%20b?c")
  u.query, u.path = nil, "/d"
  t.equal(client:post(u, "x").body, "/d")
  local answer <close> = assert(client:open { u })
  t.equal(answer:read_all(), "/d")
end)

t.it("wrong arguments raise errors that name the function", function()
  t.equal(problem_of(url.parse, 5), "url.parse: argument #1 must be a string, got 5")
  t.equal(problem_of(url.join, "http://x"), "url.join: argument #2 must be a string, got nothing")
  t.equal(problem_of(url.query, "x"), "url.query: argument #1 must be a table, got \"x\"")
  t.equal(problem_of(url.query), "url.query: argument #1 must be a table, got nothing")
  t.equal(problem_of(url.query, { a = print }),
    "url.query: field 'a' must be a string, a number, a boolean or a list of them, got a function")
  for _, list in ipairs { { 1, nil, 3 }, { x = 1 } } do
    t.equal(problem_of(url.query, { a = list }), "url.query: field 'a' must be a list without holes or other keys")
  end
  t.equal(problem_of(url.query, { [{}] = 1 }), "url.query: a table cannot be a name")
  t.equal(problem_of(url.parse_query), "url.parse_query: argument #1 must be a string, got nothing")
  t.equal(problem_of(url.escape, {}), "url.escape: argument #1 must be a string, got a table")
end)
