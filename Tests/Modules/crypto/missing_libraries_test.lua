-- runloop.crypto, .zlib and .url on a machine without their libraries, which only root can simulate for one process;
-- also tests that no library is loaded before the first call that needs it.

local t = require "runloop.test"
local process = require "runloop.process"

local REAL <const> = { real_time = true, timeout = 30 }

local function library_of(name, use)
  local program = ([[
    %s
    for line in io.lines "/proc/self/maps" do
      local path = line:match "%%S*/%s%%S*"
      if path then print(path) break end
    end
  ]]):format(use, name:gsub("%.", "%%."))
  return process.run({ t.rlhost, "-e", program }).output:match "[^\n]+"
end

local LIBRARIES <const> = {
  { "libcrypto.so.3", "libssl3", 'require "runloop.crypto".hash("md5", "")', {
    'require "runloop.crypto".hash("sha256", "")', 'require "runloop.crypto".hmac("sha256", "", "")',
    'require "runloop.crypto".hasher "sha256"', 'require "runloop.crypto".pbkdf2("sha256", "", "", 1, 1)',
    'require "runloop.crypto".ed25519_public(("x"):rep(32))',
  } },
  { "libz.so.1", "zlib1g", 'require "runloop.zlib".compress ""', {
    'require "runloop.zlib".compress ""', 'require "runloop.zlib".decompress ""', 'require "runloop.zlib".compressor()',
    'require "runloop.zlib".decompressor()', 'require "runloop.http".serve("memory", { compress = true }, print)',
  } },
  { "libidn2.so.0", "libidn2-0", 'require "runloop.url".parse "http://\u{E9}/"', {
    'require "runloop.url".parse "http://\u{E9}/"',
  } },
}

local can_hide = os.execute "unshare -m mount --bind /dev/null /etc/hosts 2>/dev/null"
local it = can_hide and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end

it("a missing library returns an error with the package to install", REAL, function()
  for _, library in ipairs(LIBRARIES) do
    local name, package, use, calls = table.unpack(library)
    local path = assert(library_of(name, use), name)
    for _, call in ipairs(calls) do
      local run = process.run { "unshare", "-m", "sh", "-c", 'mount --bind /dev/null "$1" && shift && exec "$@"', "sh",
        path, t.rlhost, "-e", ("local result, problem, code = %s print(result, code, problem)"):format(call) }
      t.truthy(run.output:find("^nil\tENOENT\tENOENT: " .. name:gsub("%.", "%%.")), call .. run.output .. run.errors)
      t.truthy(run.output:find("apt install " .. package, 1, true), run.output)
    end
  end
end)

t.it("no library is loaded before the first call that needs it", REAL, function()
  t.equal(library_of("libcrypto.so.3", [[
    local crypto = require "runloop.crypto"
    crypto.random(5, "hex")
    crypto.equal("a", "b")
    require "runloop.encoding".encode("x", "base64")
  ]]), nil)
  t.equal(library_of("libz.so.1", 'require "runloop.zlib"'), nil)
  t.equal(library_of("libidn2.so.0", 'require "runloop.url".parse "http://example.com/"'), nil)
end)
