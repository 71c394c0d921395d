-- runloop.socket.ssl: LuaSec's `ssl` over streams: the parts that programs need for connections.

local rl = require "runloop"
local common = require "runloop.socket.common"
local tcp = require "runloop.socket.tcp"
local type, next, pairs = type, next, pairs

local ssl = { _VERSION = "1.2.0", _COPYRIGHT = "runloop.socket" }

-- A connection is a TCP connection with other methods.
local methods = {}
for name, method in pairs(tcp.methods) do methods[name] = method end
for _, name in next, { "connect", "bind", "listen", "accept", "shutdown" } do methods[name] = nil end

local metatable = {
  __index = methods, __name = "SSL:Connection", __gc = tcp.metatable.__gc, __close = tcp.metatable.__close,
  __tostring = function(self) return "SSL connection: " .. self.address end,
}

local function refuse(where, name)
  where[name] = function() error(("ssl.%s: not offered by runloop.socket"):format(name), 2) end
end

for _, name in next, { "compression", "exportkeyingmaterial", "getalpn", "getfinished", "getlocalcertificate",
  "getlocalchain", "getpeercertificate", "getpeerchain", "getpeerfinished", "getpeerverification", "getsniname", "info",
  "setdane", "settlsa", "want" } do
  refuse(methods, name)
end
refuse(ssl, "loadcertificate")
setmetatable(ssl, { __index = function(_, name)
  if name == "config" then error("ssl.config: not offered by runloop.socket", 2) end
end })

-- Contexts -----------------------------------------------------------------------------------------------------------
local VERSIONS <const> = {
  any = false, sslv23 = false, tlsv1 = false, tlsv1_1 = false, tlsv1_2 = "1.2", tlsv1_3 = "1.3",
}
local MODES <const> = { client = true, server = true }
local Context = { __name = "SSL:Context" }

local VERIFY <const> = { none = true, peer = true, client_once = true, fail_if_no_peer_cert = true }
-- LuaSec's parameters that restrict a connection. These parameters have no effect here: OpenSSL chooses for TLS 1.2 and
-- 1.3.
local UNUSED <const> = { "ciphers", "ciphersuites", "curve", "curveslist", "depth", "dhparam", "verifyext" }

local has_warned = {}

local function warn_once(text)
  if not has_warned[text] then warn("ssl.newcontext: " .. text) end
  has_warned[text] = true
end

-- Returns the first unknown value of a parameter, which is a value or a list of values.
local function unknown(value, known)
  for _, each in next, type(value) == "table" and value or { value } do
    if not known[each] then return each end
  end
end

local function holds(value, word)
  if type(value) ~= "table" then return value == word end
  for _, each in next, value do
    if each == word then return true end
  end
  return false
end

local function readable(path, what)
  if path == nil then return true end
  if type(path) ~= "string" then return nil, ("invalid %s"):format(what) end
  local file, problem = io.open(path, "rb")
  if not file then return nil, ("error loading %s (%s)"):format(what, problem) end
  file:close()
  return true
end

local function check_files(params)
  local files = { { params.certificate, "certificate" }, { params.key, "private key" },
    { params.cafile or params.capath, "CA locations" } }
  for i = 1, 3 do
    local done, problem = readable(files[i][1], files[i][2])
    if not done then return nil, problem end
  end
  return true
end

-- Returns the options of `start_tls` for LuaSec's parameters.
local function options_of(params)
  local is_server, verifies = params.mode == "server", holds(params.verify, "peer")
  local options = {
    server = is_server, certificate = params.certificate, key = params.key,
    min_version = VERSIONS[params.protocol] or nil,
  }
  local trusted = params.cafile or params.capath
  if is_server and verifies then options.client_ca = trusted end
  if not is_server then options.verify, options.ca = verifies, verifies and trusted or nil end
  if type(params.alpn) == "string" then options.protocols = { params.alpn }
  elseif type(params.alpn) == "table" then options.protocols = params.alpn end
  return options
end

function ssl.newcontext(params)
  if type(params) ~= "table" then
    error(("bad argument #1 to 'newcontext' (table expected, got %s)"):format(params == nil and "no value"
      or type(params)), 2)
  end
  if VERSIONS[params.protocol] == nil then
    return nil, ("invalid protocol (%s)"):format(tostring(params.protocol))
  end
  if not MODES[params.mode] then return nil, ("invalid mode (%s)"):format(tostring(params.mode)) end
  if params.password ~= nil then error("ssl.newcontext: parameter 'password' is not offered by runloop.socket", 2) end
  -- With a misspelt "peer", a connection must not accept every certificate.
  local wrong = unknown(params.verify or nil, VERIFY)
  if wrong ~= nil then return nil, ("invalid verify option (%s)"):format(tostring(wrong)) end
  local kind = type(params.alpn)
  if kind == "function" then error("ssl.newcontext: a function for 'alpn' is not offered by runloop.socket", 2) end
  if kind ~= "nil" and kind ~= "string" and kind ~= "table" then return nil, "invalid ALPN parameter" end
  local done, problem = check_files(params)
  if not done then return nil, problem end
  local options = options_of(params)
  if options.verify == false then
    warn_once 'verify = "none" accepts every certificate: others can read and change the data'
  end
  for _, name in next, UNUSED do
    if params[name] ~= nil then warn_once(("parameter '%s' has no effect in runloop.socket"):format(name)) end
  end
  return setmetatable({ options = options }, Context)
end

function ssl.wrap(socket, params)
  local context, problem = params, nil
  if getmetatable(params) ~= Context then
    context, problem = ssl.newcontext(params)
    if not context then return nil, problem end
  end
  common.check(socket, "wrap", "tcp{client}")
  local stream = tcp.open(socket)
  if not stream then return nil, "closed" end
  local self = common.new(metatable, "tcp{client}", {
    fd = socket.fd, stream = stream, block = socket.block, total = socket.total, born = socket.born, sent = socket.sent,
    family = socket.family, options = context.options,
  })
  socket.fd, socket.stream, socket.rest, socket.is_closed = nil, nil, nil, true
  return self
end

function ssl.loaded() return true end

-- Connections --------------------------------------------------------------------------------------------------------
function methods.sni(self, name)
  if type(name) == "string" then self.name = name
  elseif type(name) == "table" then
    error("ssl.sni: a table of contexts is not offered by runloop.socket", 2)
  else
    error(("bad argument #1 to 'sni' (string expected, got %s)"):format(name == nil and "no value" or type(name)), 2)
  end
end

local function shake(self, limit)
  local options = { timeout = limit, server_name = not self.options.server and self.name or nil }
  for field, value in next, self.options do options[field] = value end
  local done, problem, code = self.stream:start_tls(options)
  tcp.limit_stream(self)
  if done then return true end
  return false, problem == "timed out" and "timeout" or code == "EOF" and "closed" or problem or "closed"
end

function methods.dohandshake(self)
  if not self.stream then return false, "closed" end
  if self.is_secure then return true end
  common.begin(self)
  local done, problem
  if self.handshake or common.left(self) == 0 then
    -- The handshake goes on in the background; a later call gets its result.
    self.handshake = self.handshake or rl.task(function()
      self.stream:set_timeout(nil)
      self.outcome = { shake(self) }
    end)
    if not self.outcome then return false, "wantread" end
    done, problem = self.outcome[1], self.outcome[2]
  else
    done, problem = shake(self, common.left(self))
  end
  self.is_secure = done
  return done, problem
end

return ssl
