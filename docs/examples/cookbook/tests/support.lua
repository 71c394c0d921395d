-- Functions that the tests of several tools use.
local fs, process = require "runloop.fs", require "runloop.process"
local t = require "runloop.test"

local here = process.directory()
local support = {}

-- Returns a new directory, which is removed at the end of the test.
function support.directory()
  local path = assert(fs.temporary_directory "cookbook")
  t.finally(function() assert(fs.remove(path, { recursive = true })) end)
  return path
end

-- Starts a tool in the test's time, and ends it with the test. The fields are those of `t.spawn`.
function support.start(tool, options)
  options.virtual_time = options.virtual_time ~= false
  table.move(options, 1, #options, 3)
  options[1], options[2] = t.rlhost, here .. "/" .. tool .. ".lua"
  local program = t.spawn(options)
  t.finally(function() program:kill() end)
  return program
end

-- Makes a certificate for localhost. Returns the paths of it and of its key.
function support.certificate()
  local directory = support.directory()
  local certificate, key = directory .. "/certificate.pem", directory .. "/key.pem"
  local made = assert(process.run {
    "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate })
  t.equal(made.code, 0, made.errors)
  return certificate, key
end

return support
