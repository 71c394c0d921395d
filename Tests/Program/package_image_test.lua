-- scripts/package: its images run as process 1.

local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"
local packing = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/packing.lua")

local PROGRAM, REAL, VERSION, as_root = packing.program, packing.real, packing.version, packing.as_root
local with, good, directory, package = packing.with, packing.good, packing.directory, packing.package
local packages = packing.packages

-- Unpacks an image's layer.
local function unpack_image(path, file)
  good([[cd $1 && mkdir image tree && tar -C image -xf $2 && cd image &&
    sha256sum -c >/dev/null <<END
$(cd blobs/sha256 && for f in *; do echo "$f  blobs/sha256/$f"; done)
END
    for f in blobs/sha256/*; do gzip -t $f 2>/dev/null && tar -C ../tree --numeric-owner -xpzf $f; done; true]], path, file)
  local index = json.decode(assert(fs.read(path .. "/image/index.json")))
  local function blob(digest)
    return json.decode(assert(fs.read(path .. "/image/blobs/sha256/" .. digest:match "sha256:(.*)")))
  end
  return blob(blob(index.manifests[1].digest).config.digest)
end

as_root("the image runs as process 1 of a user without rights, and ends on SIGTERM", REAL, function()
  local path <const>, gone <close> = directory()
  local config = unpack_image(path, good("echo $1/*-oci-amd64.tar", packages "oci"):sub(1, -2))
  local set = config.config
  t.equal({ config.architecture, set.User, set.Entrypoint, set.StopSignal, set.WorkingDir },
    { "amd64", "65534:65534", { "/usr/bin/rlhost" }, "SIGTERM", "/" })
  t.equal(config.config.Labels["org.opencontainers.image.version"], VERSION)
  t.truthy(tonumber(good("du -s --apparent-size -B1 $1/tree | cut -f1", path)) <= 16e6)
  t.equal(good("stat -c %a $1/tree/tmp", path), "1777\n")
  local inside = "unshare --fork --pid --mount --setuid 65534 --setgid 65534 --root=" .. path
    .. "/tree /usr/bin/rlhost "
  t.equal(good("chmod 755 $1 $1/tree; " .. inside .. "-p 'require \"runloop.process\".id(), 1+1'", path), "1\t2\n")
  local program = assert(process.start { "sh", "-c", "exec " .. inside .. "-e \"$1\"", "sh", [[
    io.stdout:write "ready\n" io.stdout:flush()
    rl.on_shutdown(function() print "bye" end)
    rl.sleep(60)]], output = "pipe" })
  t.equal(program.output:read_line { timeout = 20 }, "ready")
  local child = good("cat /proc/$1/task/*/children", tostring(program:pid())):match "%d+"
  good("kill -TERM $1", child)
  t.equal(program.output:read_line { timeout = 20 }, "bye")
  program:wait(20)
  program.output:abort()
end)

with "skopeo"("skopeo accepts the image", REAL, function()
  local path <const>, gone <close> = directory()
  local said = good("skopeo inspect --tmpdir $2 oci-archive:$(echo $1/*-oci-amd64.tar)", packages "oci", path)
  t.equal({ json.decode(said).Architecture, json.decode(said).Os }, { "amd64", "linux" })
end)

as_root("the full image has TLS, the HTTP client and time zones", REAL, function()
  local path <const>, gone <close> = directory()
  local result = package(("--program %s --output %s --full oci"):format(PROGRAM, path))
  t.equal(result.code, 0, result.errors)
  unpack_image(path, good("echo $1/*-oci-full-amd64.tar", path):sub(1, -2))
  t.truthy(tonumber(good("du -s --apparent-size -B1 $1/tree | cut -f1", path)) <= 40e6)
  local said = good("chroot $1/tree /usr/bin/rlhost -e \"$2\"", path, [[
    print((select(3, require "runloop.net".connect("127.0.0.1:1", { tls = true }))))
    print((select(3, require "runloop.http".get "https://127.0.0.1:1/")))
    print(require "runloop.fs".stat "/usr/share/zoneinfo/Europe/Berlin" ~= nil)
  ]])
  t.truthy(said:find("ECONNREFUSED\nECONNREFUSED\ntrue\n", 1, true), said)
end)
