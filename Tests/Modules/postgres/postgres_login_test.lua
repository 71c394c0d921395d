-- runloop.postgres: how it connects: TLS with certificates of an authority of our own, SCRAM, Unix sockets, services.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local postgres = require "runloop.postgres"

local REAL = { real_time = true, timeout = 60 }

local function run(...)
  local result = t.truthy(process.run { ... })
  t.equal(result.code, 0, result.errors)
  return result.output
end

-- Makes a certificate for the address 0.0.0.0, which leads to this machine and is not one of its names; and an
-- authority for it. Returns their directory.
local function certificates()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  if not process.run { "openssl", "version" } then t.skip "openssl is not installed (apt install openssl)" end
  local new = { "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2" }
  run("openssl", "req", "-x509", "-subj", "/CN=authority", "-keyout", path .. "/ca.key", "-out", path .. "/ca.pem",
    table.unpack(new))
  run("openssl", "req", "-subj", "/CN=server", "-keyout", path .. "/key", "-out", path .. "/request",
    table.unpack(new))
  t.truthy(fs.write(path .. "/names", "subjectAltName=IP:0.0.0.0"))
  run("openssl", "x509", "-req", "-in", path .. "/request", "-CA", path .. "/ca.pem", "-CAkey", path .. "/ca.key",
    "-CAcreateserial", "-days", "2", "-extfile", path .. "/names", "-out", path .. "/certificate")
  run("chmod", "755", path)
  run("chmod", "600", path .. "/key")
  -- Under root, the server runs as another user.
  if run("id", "-u") == "0\n" then run("chown", "postgres", path .. "/key") end
  return path
end

local function try(where, options)
  local db, message, code = postgres.open(where, options)
  if not db then return nil, message, code end
  local is_encrypted = db:value "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
  db:close()
  return is_encrypted
end

t.describe("a server with a certificate", function()
  t.it("is trusted only if its certificate is valid, unless sslmode allows less", REAL, function()
    local path = certificates()
    local server = t.server("postgres", { arguments = { "-c", "ssl=on",
      "-c", "ssl_cert_file=" .. path .. "/certificate", "-c", "ssl_key_file=" .. path .. "/key" } })
    local there = { host = "0.0.0.0", port = server:port(), user = "postgres", dbname = "postgres" }
    local function with(fields)
      local where = {}
      for _, from in ipairs { there, fields } do for key, value in pairs(from) do where[key] = value end end
      return where
    end
    -- The system does not trust the certificate authority.
    local nothing, message, code = try(there)
    t.equal({ nothing, code }, { nil, "TLS_CERTIFICATE" }, message)
    t.equal(try(with { sslrootcert = path .. "/ca.pem" }), true)
    t.equal(select(3, try(with { sslrootcert = path .. "/ca.pem", host = "localhost.", hostaddr = "127.0.0.1",
      sslmode = "verify-full" })), "TLS_CERTIFICATE")
    t.equal(try(with { sslmode = "require" }), true)
    t.equal(try(with { sslmode = "disable" }), false)
    -- For a server on this machine TLS is not required by default; libpq uses it if the server offers it.
    t.equal(type(try(server:url())), "boolean")
    t.equal(try(server:url():gsub("127.0.0.1", "0.0.0.0") .. "?sslmode=verify-full&sslrootcert=" .. path .. "/ca.pem"),
      true)
    local db = t.truthy(postgres.open(with { sslrootcert = path .. "/ca.pem" }))
    t.finally(function() db:close() end)
    t.equal(select(2, db:value { "select pg_sleep($1)", 60, timeout = 0.05 }), "timed out")
    t.eventually(function() return db:stats().in_use == 0 end, { within = 5 })
    t.equal(db:value "select 1", 1)
  end)

  t.it("is required for another machine", REAL, function()
    local server = t.server "postgres"
    local where = server:url():gsub("127.0.0.1", "0.0.0.0")
    local nothing, message, code = try(where)
    t.equal({ nothing, code }, { nil, "TLS_PROTOCOL" }, message)
    t.equal(try(where .. "?sslmode=disable"), false)
    t.equal(try(server:url()), false)
  end)
end)

t.describe("a log-in", function()
  t.it("works by SCRAM, by a Unix socket, by a service, and by a file of passwords", REAL, function()
    local server = t.server("postgres", {
      files = { hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n" },
      arguments = { "-c", "hba_file={directory}/hba", "-c", "password_encryption=scram-sha-256" },
    })
    local by_socket = { host = server:directory(), port = server:port(), user = "postgres", dbname = "postgres" }
    local db = t.truthy(postgres.open(by_socket))
    t.equal(db:execute "create role ada login password 'Geheim-#1'", 0)
    db:close()
    local place = ("127.0.0.1:%d/postgres"):format(server:port())
    t.equal(try("postgres://ada:Geheim-%231@" .. place), false)
    for _, where in ipairs { "postgres://ada:wrong@" .. place, "postgres://ada@" .. place } do
      local nothing, message, code = try(where)
      t.equal({ nothing, code }, { nil, "EAUTH" }, message)
      t.equal(message:find("wrong", 1, true), nil)
    end
    local service = ("[orders]\nhost=127.0.0.1\nport=%d\ndbname=postgres\nuser=ada\n"):format(server:port())
    t.truthy(fs.write(server:directory() .. "/services", service))
    t.truthy(fs.write(server:directory() .. "/passwords", "127.0.0.1:*:*:ada:Geheim-#1\n"))
    run("chmod", "600", server:directory() .. "/passwords")
    local program = t.spawn { t.rlhost, "-e", [[
      local postgres = require "runloop.postgres"
      local db <close> = assert(postgres.open "service=orders sslmode=disable")
      print(db:value "select current_user", db:name())
      print(tostring(db):find("Geheim", 1, true))]],
      env = { PGSERVICEFILE = server:directory() .. "/services", PGPASSFILE = server:directory() .. "/passwords" } }
    t.equal(program:wait(), 0, program:output())
    t.equal(program:output(), "ada\torders/\nnil\n")
  end)
end)
