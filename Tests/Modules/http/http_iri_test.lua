-- Hosts and URLs with other characters than ASCII, in runloop.http and runloop.net.

local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
local fs, process = require "runloop.fs", require "runloop.process"
local t = require "runloop.test"

local ASCII <const> = "xn--bcher-kva.localhost"
local WRONG <const> = "EINVAL: not a host name: string contains a disallowed character (b\u{FFFD}cher.localhost)"
local server = t.resource(function()
  return assert(http.serve("127.0.0.1:0", function(request)
    if request.path == "/go" then
      return http.redirect("http://b\u{FC}cher.localhost:" .. request.query.port .. "/there")
    end
    if request.path == "/wrong" then return http.redirect "http://b\u{FFFD}cher.localhost/" end
    if request.path == "/socket" then
      local socket = request:websocket()
      socket:send(request.headers.host .. request.target)
      return socket:close()
    end
    return request.headers.host .. request.target
  end))
end, function(server) server:stop(1) end)
local function port() return server():address():match "%d+$" end

t.each({
  { "http://b\u{FC}cher.localhost:%s/x", ASCII, "/x" },
  { "http://B\u{DC}CHER.localhost:%s/x", ASCII, "/x" },
  { "http://b%%C3%%BCcher.localhost:%s/x", ASCII, "/x" },
  { "http://me:word@b\u{FC}cher.localhost:%s", ASCII, "/", "me:word@" },
  { "b\u{FC}cher.localhost:%s/x", ASCII, "/x" },
  { "http://fa\u{DF}.localhost:%s/", "xn--fa-hia.localhost", "/" },
  { "http://\u{FF11}27.0.0.1:%s/", "127.0.0.1", "/" },
  { "http://localhost:%s/\u{FC}?q=\u{20AC}&a=%%20b", "localhost", "/%C3%BC?q=%E2%82%AC&a=%20b" },
}, "http.get converts %s", function(url, host, target, user)
  local answer = assert(http.get(url:format(port())))
  t.equal({ answer.body, answer.url }, { ("%s:%s%s"):format(host, port(), target),
    ("http://%s%s:%s%s"):format(user or "", host, port(), target) })
end)

t.it("redirects, http.open, WebSockets and clients of tests convert international names, too", function()
  local here = ("%s:%s"):format(ASCII, port())
  t.equal(assert(http.get(("http://127.0.0.1:%s/go?port=%s"):format(port(), port()))).body, here .. "/there")
  local answer <close> = assert(http.open { ("http://b\u{FC}cher.localhost:%s/x"):format(port()) })
  t.equal(answer:read_all(), here .. "/x")
  local socket <close> = assert(http.websocket(("ws://b\u{FC}cher.localhost:%s/socket?\u{FC}"):format(port())))
  t.equal(socket:receive(), here .. "/socket?%C3%BC")
  t.equal(t.http(function(request) return request.headers.host
    .. request.target end):get("http://b\u{FC}cher.example/\u{FC}").body,
    "xn--bcher-kva.example/%C3%BC")
end)

t.it("a host that cannot be converted to a name returns an error", function()
  local url = "//b\u{FFFD}cher.localhost:" .. port() .. "/"
  t.equal({ http.get("http:" .. url) }, { nil, WRONG, "EINVAL" })
  t.equal({ http.open { "http:" .. url } }, { nil, WRONG, "EINVAL" })
  t.equal({ http.websocket("ws:" .. url) }, { nil, WRONG, "EINVAL" })
  t.equal({ http.get("http://127.0.0.1:" .. port() .. "/wrong") }, { nil, WRONG, "EINVAL" })
  t.equal({ http.get("http://127.0.0.1:" .. port() .. "/", { proxy = "http:" .. url }) }, { nil, WRONG, "EINVAL" })
  t.equal({ t.http(function() return "" end):get("http:" .. url) }, { nil, WRONG, "EINVAL" })
  local wrong = WRONG:gsub("localhost", "example")
  t.equal({ net.resolve "b\u{FFFD}cher.example" }, { nil, wrong, "EINVAL" })
  t.equal({ net.connect "b\u{FFFD}cher.example:1" }, { nil, wrong, "EINVAL" })
  -- "a/c.example", with "a/c" as a single character.
  t.equal({ net.resolve "\u{2100}.example" }, { nil,
    "EINVAL: not a host name: it maps to characters that host names cannot have (\u{2100}.example)", "EINVAL" })
  local a, b = net.memory()
  t.equal(select(3, a:start_tls { server_name = "b\u{FFFD}cher.example" }), "EINVAL")
  a:close()
  b:close()
  t.equal(net.resolve("\u{FF11}27.0.0.1"), { "127.0.0.1" })
end)

t.it("certificates are checked for the ASCII form of the host's name", function()
  local directory = assert(fs.temporary_directory "iri")
  local cert, key = directory .. "/cert.pem", directory .. "/key.pem"
  assert(os.execute(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s -out %s "
    .. "-days 30 -subj /CN=x -addext subjectAltName=DNS:%s 2>/dev/null"):format(
      key, cert, ASCII)))
  local asked
  local listener <close> = assert(net.serve("127.0.0.1:0", { tls = { sni = function(name)
    asked = name
    return { certificate = cert, key = key }
  end } }, function(stream) stream:write "hello" end))
  local client <close> = assert(net.connect("b\u{FC}cher.localhost:" .. listener:port(), { tls = { ca = cert } }))
  t.equal({ client:read_all(), asked }, { "hello", ASCII })
  assert(fs.remove(directory, { recursive = true }))
end)

-- The test needs other hosts, and a machine without the library; only root can simulate both for one process.
local function as_if(what, with)
  return process.run { "unshare", "-m", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", with, what,
    t.rlhost, "-e", [[
    local net = require "runloop.net"
    local found, message, code = net.resolve "b\u{FC}cher.example"
    print(found and found[1] or message, code)
    print((select(2, net.connect("b\u{FC}cher.example:1"))))
  ]], timeout = 30 }
end
local can_hide = os.execute "unshare -m mount --bind /dev/null /etc/hosts 2>/dev/null"
local it = can_hide and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end
local REAL <const> = { real_time = true }

it("addresses are looked up by the ASCII form of the host's name", REAL, function()
  local hosts = os.tmpname()
  assert(fs.write(hosts, "127.77.0.9 xn--bcher-kva.example\n"))
  t.equal(as_if("/etc/hosts", hosts).output, "127.77.0.9\tnil\nECONNREFUSED: connection refused (127.77.0.9:1)\n")
  os.remove(hosts)
end)

it("if libidn2 is missing, the error names it", REAL, function()
  net.resolve "b\u{FFFD}cher.example"
  local library
  for line in io.lines "/proc/self/maps" do library = line:match "%S*/libidn2%.so%.0%S*" or library end
  local problem = "IDN_MISSING: libidn2.so.0 cannot be loaded: "
  for line in as_if(assert(library), "/dev/null").output:gmatch "[^\n]+" do
    t.truthy(line:find(problem, 1, true) and line:find("(b\u{FC}cher.example)", 1, true), line)
  end
end)
