-- TLS of runloop.net: certificates that a server's function chooses, and choices that are impossible.

local rl, net, http = require "runloop", require "runloop.net", require "runloop.http"
local process = require "runloop.process"
local t = require "runloop.test"

local directory = os.tmpname()
os.remove(directory)
assert(os.execute("mkdir " .. directory))
local function file(name) return directory .. "/" .. name end
for _, name in ipairs { "good", "other" } do
  assert(os.execute(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s -out %s "
    .. "-days 30 -subj /CN=%s 2>/dev/null"):format(
      file(name .. ".key"), file(name .. ".pem"), name)))
end
t.after_all(function() os.execute("rm -r " .. directory) end)

local CHOICES = {
  missing = { certificate = "/nothing" },
  foreign = { certificate = file "good.pem", key = file "other.key" },
  misspelt = { certifcate = file "good.pem" },
  nonsense = 5,
}
local function choose(name)
  if name == "raises" then error "no choice" end
  if name == "waits" then rl.sleep(0.001) end
  return CHOICES[name] or (name == "good" or name == "waits")
    and { certificate = file "good.pem", key = file "good.key" } or nil
end

-- Returns the client's error for this name, and the text and place of the script's error.
local function asked(where, name)
  local told = {}
  local before = rl.on_error(function(problem, info)
    told = { (tostring(problem):gsub("^.-_test%.lua:%d+: ", "")), (info.where:gsub(" made at .*", "")) }
  end)
  local client, problem = net.connect(where, { tls = { server_name = name, verify = false } })
  rl.sleep(0.02)
  rl.on_error(before)
  if client then client:close() end
  return client and "served" or problem:gsub(" %(.*", ""), told[1], told[2]
end

local UNABLE <const>, UNKNOWN <const> = "TLS: tlsv1 alert internal error", "TLS: tlsv1 unrecognized name"
local FOREIGN <const> = "TLS: the private key does not belong to the certificate (" .. file "other.key"
  .. "): 'sni' has chosen it for the name \"foreign\""
local MISSING <const> = "ENOENT: no such file or directory (/nothing): 'sni' has chosen it for the name \"missing\""

t.each({
  { "net.serve", function(tls) return assert(net.serve("127.0.0.1:0", { tls = tls }, function() end)) end, "listener" },
  { "http.serve", function(tls) return assert(http.serve("127.0.0.1:0", { tls = tls }, function() return "" end)) end,
    "http server" },
}, "a choice that %s cannot use is reported to client and script, with the name", function(caller, make, culprit)
  local server = make { sni = choose }
  local where = server:address()
  local function seen(name) return { asked(where, name) } end
  t.equal(seen "good", { "served" })
  t.equal(seen "waits", { "served" })
  t.equal(seen "nobody", { UNKNOWN })
  t.equal(seen "missing", { UNABLE, MISSING, "listener" })
  t.equal(seen "foreign", { UNABLE, FOREIGN, "listener" })
  t.equal(seen "raises", { UNABLE, "no choice", culprit })
  t.equal(seen "nonsense", { UNABLE, caller .. ": 'sni' must return a table of options or nil, got 5", culprit })
  t.equal(seen "misspelt",
    { UNABLE, caller .. ": the table returned by 'sni': unknown field 'certifcate' (did you mean 'certificate'?)",
      culprit })
  t.equal(seen "good", { "served" })
  server:stop(1)
end)

t.it("an invalid choice is reported to on_trouble, if there is one", function()
  local told
  local server = assert(net.serve("127.0.0.1:0", { tls = { sni = choose },
    on_trouble = function(listener, message, code)
      told = { listener:port(), message, code }
  end }, function() end))
  t.equal({ asked(server:address(), "missing") }, { UNABLE })
  t.equal(told, { server:port(), MISSING, "ENOENT" })
  server:stop(1)
end)

t.it("an invalid choice is reported to on_error of a listener that delivers input", function()
  local told = {}
  local listener = assert(net.listener { host = "127.0.0.1", port = 0, tls = { sni = choose }, on_data = function() end,
    on_error = function(stream, message, code) told[#told + 1] = { type(stream), message, code } end })
  rl.current():add(listener)
  t.equal({ asked(listener:address(), "missing") }, { UNABLE })
  t.equal({ asked(listener:address(), "nobody") }, { UNKNOWN })
  t.equal(told, { { "userdata", MISSING, "ENOENT" },
    { "userdata", 'TLS: no certificate for the name "nobody"', "TLS" } })
  listener:stop(1)
end)

t.it("an invalid choice is returned by accept and start_tls", function()
  local listener = assert(net.listener { host = "127.0.0.1", port = 0, tls = { sni = choose } })
  local task = rl.task(function() return listener:accept() end)
  t.equal({ asked(listener:address(), "missing") }, { UNABLE })
  t.equal({ task:await() }, { nil, MISSING, "ENOENT" })
  task = rl.task(function() return pcall(listener.accept, listener) end)
  t.equal({ asked(listener:address(), "nonsense") }, { UNABLE })
  local _, problem = task:await()
  t.truthy(problem:find "^%S*net_sni_test%.lua:%d+: net%.listener: 'sni' must return a table of options or nil, got 5$",
    problem)
  listener:close()
  local a, b = net.memory()
  task = rl.task(function() return select(2, b:start_tls { server_name = "missing", verify = false }) end)
  t.equal({ a:start_tls { server = true, sni = choose } }, { nil, MISSING, "ENOENT" })
  a:close()
  t.equal((task:await():gsub(" %(.*", "")), UNABLE)
  b:close()
end)

t.it("an invalid choice without a handler is a warning, and errors of the function end no HTTP server", function()
  local result = assert(process.run { t.rlhost, "-e", [[
    local http, net = require "runloop.http", require "runloop.net"
    local server = http.serve("127.0.0.1:0", { tls = { sni = function(name)
      if name == "raises" then error "no choice" end
      return { certificate = "/nothing" }
    end } }, function() return "" end)
    for _, name in ipairs { "missing", "raises" } do
      net.connect(server:address(), { tls = { server_name = name, verify = false } })
    end
    server:stop(1)
    print "ended"
  ]], timeout = 10 })
  t.equal({ result.output, result.code }, { "ended\n", 0 })
  for _, text in ipairs {
    "rlhost: listener, made at (command line):2: ENOENT: no such file or directory (/nothing): "
      .. "'sni' has chosen it for the name \"missing\"\n",
    "rlhost: (command line):3: no choice\n", "in http server made at (command line):2\n",
  } do
    t.truthy(result.errors:find(text, 1, true), result.errors)
  end
end)
