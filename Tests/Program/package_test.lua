-- scripts/package: each part of it is made, installed, run and removed, on a system that has nothing else.

local t = require "runloop.test"
local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local http = require "runloop.http"
local json = require "runloop.json"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local PROGRAM = ROOT .. "/.build/portable/rlhost"
local REAL = { real_time = true, timeout = 120 }
local VERSION = rl.version

local is_root = process.run { "id", "-u" }.output == "0\n"
local has_program = fs.stat(PROGRAM) ~= nil
local it = has_program and t.it or function(name, _, body) t.skip(name .. ": needs scripts/build --portable", body) end
local as_root = has_program and is_root and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end

local function sh(text, ...)
  local result = assert(process.run { "sh", "-c", text, "sh", ... })
  return result.output, result.errors, result.code
end

-- Fails with what the command has written, unless its status is 0.
local function good(text, ...)
  local output, errors, code = sh(text, ...)
  t.equal(code, 0, output .. errors)
  return output
end

local function directory()
  local path = assert(fs.temporary_directory())
  return path, setmetatable({}, { __close = function() sh("rm -rf '" .. path .. "'") end })
end

local function package(options, environment)
  return process.run { "sh", "-c", ROOT .. "/scripts/package " .. options, environment = environment }
end

-- A program that is packed in less time.
local SMALL = "/usr/bin/true"

local made

-- The directory with the packages of the portable program, made once.
local function packages()
  if made then return made end
  made = assert(fs.temporary_directory())
  local result = package(("--program %s --output %s"):format(PROGRAM, made))
  t.equal(result.code, 0, result.errors)
  return made
end
t.after_all(function() if made then sh("rm -rf '" .. made .. "'") end end)

it("each part is made, and its name has the version of the program", REAL, function()
  local names = good("cd $1 && ls -d *", packages())
  t.equal(names, ("apt\nrlhost-%s-linux-x86_64.tar.gz\nrlhost-%s-oci-amd64.tar\nrlhost_%s-1_amd64.deb\n")
    :format(VERSION, VERSION, VERSION))
  t.equal(good(PROGRAM .. " -p rl.version"), VERSION .. "\n")
  t.truthy(good(PROGRAM .. " --version"):find("rlhost " .. VERSION .. " ", 1, true))
end)

it("the portable program needs glibc 2.35 at most, and no other library", REAL, function()
  local versions = good("readelf -W -V $1 | grep -o 'GLIBC_[A-Z0-9_.]*' | sort -uV | tail -1", PROGRAM)
  t.equal(versions:match "GLIBC_2%.(%d+)\n" and tonumber(versions:match "2%.(%d+)") <= 35, true, versions)
  t.equal(
    good("readelf -W -d $1 | grep -E 'NEEDED|RUNPATH|RPATH|RELR' | sed 's/.*\\[//; s/\\..*//' | sort | xargs", PROGRAM),
    "ld-linux-x86-64 libc libm\n")
  t.truthy(fs.stat(PROGRAM).size <= 10.5 * 2 ^ 20, fs.stat(PROGRAM).size)
end)

it("two runs at different times, in different directories, give equal bytes", REAL, function()
  local path <const>, gone <close> = directory()
  for name, zone in pairs { ["a/b"] = "Asia/Tokyo", c = "UTC0" } do
    local result = package(("--program %s --output %s/%s"):format(SMALL, path, name), { TZ = zone, LANG = "C.UTF-8" })
    t.equal(result.code, 0, result.errors)
    rl.sleep(1.1)
  end
  t.equal(good("diff -r $1/a/b $1/c && echo same", path), "same\n")
  local times = good("tar -tvzf $1/c/*.tar.gz --full-time | awk '{ print $4, $5 }' | sort -u", path)
  t.equal(select(2, times:gsub("\n", "")), 1, times)
end)

it("SOURCE_DATE_EPOCH is the time of all files", REAL, function()
  local other <const>, gone <close> = directory()
  package(("--program %s --output %s tar"):format(SMALL, other), { SOURCE_DATE_EPOCH = "1000000000" })
  t.equal(good("TZ=UTC0 tar -tvzf $1/*.tar.gz | awk '{ print $4, $5 }' | sort -u", other), "2001-09-09 01:46\n")
end)

it("lintian has nothing to say", REAL, function()
  local output, errors, code = sh("lintian --fail-on error,warning $1/*.deb", packages())
  t.equal({ code, output, (errors:gsub("running with root privileges is not recommended!\n", "")) }, { 0, "", "" })
end)

-- The names of the essential packages and of apt, with all that they need.
local function essential_packages()
  local needs, provider, queue = {}, {}, { "apt" }
  local rows = good "dpkg-query -W -f '${Package}\\t${Essential}\\t${Provides}\\t${Pre-Depends}, ${Depends}\\n'"
  for name, essential, provides, depends in rows:gmatch "([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\n]*)\n" do
    needs[name], provider[name] = depends, name
    for other in provides:gmatch "[%w.+-]+" do provider[other] = provider[other] or name end
    if essential == "yes" then queue[#queue + 1] = name end
  end
  local chosen, names = {}, {}
  while #queue > 0 do
    local name = table.remove(queue)
    if not chosen[name] then
      chosen[name], names[#names + 1] = true, name
      for alternatives in needs[name]:gmatch "[^,]+" do
        for word in alternatives:gmatch "|?%s*([%w.+-]+)[^|]*" do
          if provider[word] then queue[#queue + 1] = provider[word] break end
        end
      end
    end
  end
  table.sort(names)
  return names
end

-- A root directory with these packages and no others; `chroot` in it runs programs.
local function bare_root(path)
  local names = table.concat(essential_packages(), " ")
  good([[
    cd $1 && for d in bin sbin lib lib32 lib64 libx32; do mkdir -p usr/$d && ln -s usr/$d $d; done
    mkdir -p dev proc tmp run var/lib/dpkg/info var/lib/dpkg/updates var/lib/apt/lists/partial var/log/apt var/cache/apt/archives/partial
    mkdir -p etc/apt/apt.conf.d etc/apt/preferences.d etc/apt/trusted.gpg.d && mknod -m 666 dev/null c 1 3 && chmod 1777 tmp
    dpkg -L $2 | sed 's,^/,,' | sort -u | grep -v -e '^usr/share/\(doc\|man\|locale\|info\)/' -e '^\.\?$' | while read -r f; do
      [ -d "/$f" ] || [ ! -e "/$f" ] || echo "$f"; done >/tmp/files.$$
    tar -C / --no-recursion -T /tmp/files.$$ -cf - 2>/dev/null | tar --keep-directory-symlink -xf - ; rm /tmp/files.$$
    cp /etc/passwd /etc/group etc/
    [ -e usr/bin/awk ] || ln -s mawk usr/bin/awk
    awk -v names=" $2 " 'BEGIN { RS = ""; ORS = "\n\n" } index(names, " " $2 " ")' /var/lib/dpkg/status >var/lib/dpkg/status
    for p in $2; do cp /var/lib/dpkg/info/$p.list /var/lib/dpkg/info/$p:*.list var/lib/dpkg/info/ 2>/dev/null; done
    cp /var/lib/dpkg/info/format var/lib/dpkg/info/; touch var/lib/dpkg/available; ldconfig -r .
  ]], path, names)
end

local SNAPSHOT = [[cd $1 && find . -path ./var/log -prune -o -path ./var/lib/dpkg -prune -o -path ./var/cache -prune \
  -o -path ./var/lib/apt -prune -o -path ./tmp -prune -o -printf '%p %M %s %l\n' | grep -v '^\./[a-z/]* d' | sort]]

as_root("on a bare Debian: install, run, name missing packages, purge without a trace", REAL, function()
  local path <const>, gone <close> = directory()
  bare_root(path)
  local before = good(SNAPSHOT, path)
  t.falsy(before:find "liblua" or before:find "libcurl" or before:find "libssl")
  good("cp $2/*.deb $1/tmp && chroot $1 sh -c 'dpkg -i /tmp/rlhost_*.deb' 2>&1", path, packages())
  t.equal(good("chroot $1 rlhost -p 1+1", path), "2\n")
  local said = good("chroot $1 rlhost -e \"$2\"", path, [[
    local net, http = require "runloop.net", require "runloop.http"
    print(net.connect("127.0.0.1:1", { tls = true }))
    print(http.get "http://127.0.0.1:1/")
  ]])
  t.truthy(said:find("TLS_MISSING: libssl.so.3 is not installed (apt install libssl3 ca-certificates)", 1, true), said)
  t.truthy(said:find("libcurl.so.4 is not installed (apt install libcurl4)", 1, true), said)
  t.truthy(good("chroot $1 sh -c 'ls /usr/share/doc/rlhost /usr/share/man/man1'", path):find "rlhost.1.gz")
  good("chroot $1 dpkg -P rlhost", path)
  t.equal(good(SNAPSHOT, path), before)
end)

as_root("apt installs the program from its package source, by file: and by http:", REAL, function()
  local path <const>, gone <close> = directory()
  bare_root(path)
  good("cp -r $2/apt $1/source", path, packages())
  local routes = http.routes()
  routes:files("/*path", packages() .. "/apt")
  local server <close> = assert(http.serve("127.0.0.1:0", routes))
  for _, source in ipairs { "file:/source", ("http://127.0.0.1:%s"):format(server:address():match "%d+$") } do
    good("echo \"deb [trusted=yes] $2 stable main\" >$1/etc/apt/sources.list", path, source)
    local said = good([[chroot $1 sh -c 'export DEBIAN_FRONTEND=noninteractive; o="-o APT::Sandbox::User=root"
      apt-get $o update -q && apt-get $o install -q -y rlhost && rlhost --version && apt-get $o purge -q -y rlhost' 2>&1]], path)
    t.truthy(said:find("rlhost " .. VERSION, 1, true), said)
  end
end)

it("the tarball works from a read-only directory, through a symbolic link, with its documents", REAL, function()
  local path <const>, gone <close> = directory()
  good([[cd $1 && tar xf $2/*.tar.gz && mv rlhost-*-linux-x86_64 "a place" && chmod -R a-w "a place" &&
    ln -s "a place/bin/rlhost" here]],
    path, packages())
  t.equal(good("cd $1 && ./here -p 1+1", path), "2\n")
  t.truthy(good("cd $1 && ls 'a place/share/doc/rlhost'", path):find "README.md")
  good("chmod -R u+w $1", path)
end)

-- Unpacks an image's layer.
local function unpack_image(path, file)
  good([[cd $1 && mkdir image root && tar -C image -xf $2 && cd image &&
    sha256sum -c >/dev/null <<END
$(cd blobs/sha256 && for f in *; do echo "$f  blobs/sha256/$f"; done)
END
    for f in blobs/sha256/*; do gzip -t $f 2>/dev/null && tar -C ../root --numeric-owner -xpzf $f; done; true]], path, file)
  local index = json.decode(assert(fs.read(path .. "/image/index.json")))
  local function blob(digest)
    return json.decode(assert(fs.read(path .. "/image/blobs/sha256/" .. digest:match "sha256:(.*)")))
  end
  return blob(blob(index.manifests[1].digest).config.digest)
end

as_root("the image runs as process 1 of a user without rights, and ends on SIGTERM", REAL, function()
  local path <const>, gone <close> = directory()
  local config = unpack_image(path, good("echo $1/*-oci-amd64.tar", packages()):sub(1, -2))
  local set = config.config
  t.equal({ config.architecture, set.User, set.Entrypoint, set.StopSignal, set.WorkingDir },
    { "amd64", "65534:65534", { "/usr/bin/rlhost" }, "SIGTERM", "/" })
  t.equal(config.config.Labels["org.opencontainers.image.version"], VERSION)
  t.truthy(tonumber(good("du -s --apparent-size -B1 $1/root | cut -f1", path)) <= 16e6)
  t.equal(good("stat -c %a $1/root/tmp", path), "1777\n")
  local inside = "unshare --fork --pid --mount --setuid 65534 --setgid 65534 --root=" .. path
    .. "/root /usr/bin/rlhost "
  t.equal(good("chmod 755 $1 $1/root; " .. inside .. "-p 'require \"runloop.process\".id(), 1+1'", path), "1\t2\n")
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

it("skopeo accepts the image", REAL, function()
  local path <const>, gone <close> = directory()
  local said = good("skopeo inspect --tmpdir $2 oci-archive:$(echo $1/*-oci-amd64.tar)", packages(), path)
  t.equal({ json.decode(said).Architecture, json.decode(said).Os }, { "amd64", "linux" })
end)

as_root("the full image has TLS, the HTTP client and time zones", REAL, function()
  local path <const>, gone <close> = directory()
  local result = package(("--program %s --output %s --full oci"):format(PROGRAM, path))
  t.equal(result.code, 0, result.errors)
  unpack_image(path, good("echo $1/*-oci-full-amd64.tar", path):sub(1, -2))
  t.truthy(tonumber(good("du -s --apparent-size -B1 $1/root | cut -f1", path)) <= 40e6)
  local said = good("chroot $1/root /usr/bin/rlhost -e \"$2\"", path, [[
    print((select(3, require "runloop.net".connect("127.0.0.1:1", { tls = true }))))
    print((select(3, require "runloop.http".get "https://127.0.0.1:1/")))
    print(require "runloop.fs".stat "/usr/share/zoneinfo/Europe/Berlin" ~= nil)
  ]])
  t.truthy(said:find("ECONNREFUSED\nECONNREFUSED\ntrue\n", 1, true), said)
end)

it("the architecture is that of the program's file", REAL, function()
  local path <const>, gone <close> = directory()
  good("cp $2 $1/program && printf '\\267' | dd of=$1/program bs=1 seek=18 conv=notrunc status=none", path, SMALL)
  local result = package(("--program %s/program --output %s/out deb tar oci"):format(path, path))
  t.equal(result.code, 0, result.errors)
  t.equal(good("cd $1/out && ls", path),
    ("rlhost-%s-linux-aarch64.tar.gz\nrlhost-%s-oci-arm64.tar\nrlhost_%s-1_arm64.deb\n")
    :format(VERSION, VERSION, VERSION))
  t.equal(good("dpkg-deb -f $1/out/*.deb Architecture", path), "arm64\n")
end)

it("a key signs the package source", REAL, function()
  local path <const>, gone <close> = directory()
  good([[export GNUPGHOME=$1/keys && mkdir -m 700 $GNUPGHOME &&
    gpg --batch --quiet --passphrase '' --quick-generate-key tester@example.org ed25519 sign never &&
    $3/scripts/package --program $4 --output $1/out --sign tester@example.org apt >&2 && cd $1/out/apt/dists/stable &&
    gpg --batch --verify Release.gpg Release 2>/dev/null && gpg --batch --decrypt InRelease 2>/dev/null | cmp - Release;
    s=$?; gpgconf --kill gpg-agent; exit $s]], path, "", ROOT, SMALL)
end)

it("what is missing is one line, and wrong words have status 64", REAL, function()
  local path <const>, gone <close> = directory()
  local function said(options)
    local result = package(options)
    t.equal(select(2, result.errors:gsub("\n", "")), 1, result.errors)
    return result.code, result.errors
  end
  t.equal(said "rpm", 64)
  t.equal(said "--output", 64)
  local code, text = said(("--program /nowhere/x --output %s"):format(path))
  t.equal({ code, text }, { 1, "package: there is no file /nowhere/x, or it cannot be read\n" })
  code, text = said(("--program /etc/passwd --output %s"):format(path))
  t.equal({ code, text }, { 1, "package: /etc/passwd is not a program for x86-64 or aarch64\n" })
  code, text = said(("--program %s --output %s --sign nobody@nowhere apt"):format(SMALL, path))
  t.equal({ code, text:find("package: gpg has no secret key", 1, true) ~= nil }, { 1, true })
end)
