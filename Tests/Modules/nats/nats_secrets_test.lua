-- runloop.nats with real servers that want TLS, or a signature.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local nats = require "runloop.nats"

-- A key that was made for this test alone.
local SEED = "SUAORNZ4MNINMNDXEZYKS4XGJI5VZPC2IHE2TCR735WFUF34DJDYXDGXZU"
local PUBLIC = "UDONWVHL47HZX5TZGWTEVY4PU52THOCEC3LXFL2L4UIACXH7NVEDPFHO"

local function folder()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

t.it("signs with an nkey", { real_time = true }, function()
  local path = folder() .. "/user.nk"
  fs.write(path, SEED .. "\n")
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    'listen: "127.0.0.1:{port}"\nauthorization: { users: [ { nkey: ' .. PUBLIC .. " } ] }\n" } }
  local bus <close> = t.truthy(nats.connect(server:address(), { nkey = path }))
  t.equal(bus:flush(5), true)
  t.equal(select(3, nats.connect(server:address())), "EAUTH")
  t.equal(select(3, nats.connect(server:address(), { nkey = path .. ".missing" })), "ENOENT")
  fs.write(path, SEED:sub(1, -2) .. "A\n")
  local _, text, code = nats.connect(server:address(), { nkey = path })
  t.equal(code, "EAUTH")
  t.falsy(text:find("SU", 1, true))
end)

t.it("uses verified TLS with a server that wants it", { real_time = true }, function()
  local path = folder()
  local made = process.run { "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
    "-nodes", "-keyout", path .. "/key.pem", "-out", path .. "/cert.pem", "-days", "30", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1" }
  if not made then t.skip "openssl is not installed (apt install openssl)" end
  local server = t.server { "nats-server", "-c", "{directory}/a.conf", ready = "tcp", files = { ["a.conf"] =
    ('listen: "127.0.0.1:{port}"\ntls { cert_file: %q, key_file: %q }\n'):format(path .. "/cert.pem",
      path .. "/key.pem") } }
  local trust = { ca = path .. "/cert.pem" }
  t.equal(select(3, nats.connect(server:address())), "TLS_CERTIFICATE")
  for _, where in ipairs { "tls://localhost:" .. server:port(), server:address() } do
    local bus <close> = t.truthy(nats.connect(where, { tls = trust, password = "ignored" }))
    t.equal(bus:server().tls, true)
    t.equal(select(3, bus:request "nobody"), "ENOENT")
  end
end)
