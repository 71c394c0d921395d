-- scripts/package: its packages are installed, run and removed, on a system without other packages.

local t = require "runloop.test"
local fs = require "runloop.fs"
local http = require "runloop.http"
local packing = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/packing.lua")

local PROGRAM, REAL, VERSION, it = packing.program, packing.real, packing.version, packing.it
local as_root, with, sh, good = packing.as_root, packing.with, packing.sh, packing.good
local directory, packages = packing.directory, packing.packages

it("the portable program needs glibc 2.35 at most, and no other library", REAL, function()
  local versions = good("readelf -W -V $1 | grep -o 'GLIBC_[A-Z0-9_.]*' | sort -uV | tail -1", PROGRAM)
  t.equal(versions:match "GLIBC_2%.(%d+)\n" and tonumber(versions:match "2%.(%d+)") <= 35, true, versions)
  t.equal(
    good("readelf -W -d $1 | grep -E 'NEEDED|RUNPATH|RPATH|RELR' | sed 's/.*\\[//; s/\\..*//' | sort | xargs", PROGRAM),
    "ld-linux-x86-64 libc libm\n")
  t.truthy(fs.stat(PROGRAM).size <= 10e6, fs.stat(PROGRAM).size)
end)

with "lintian"("lintian reports no problems", REAL, function()
  local output, errors, code = sh("lintian --fail-on error,warning $1/*.deb", packages "deb tar apt")
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

-- Makes a root directory with these packages and no others; `chroot` runs programs in it.
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
  good("cp $2/*.deb $1/tmp && chroot $1 sh -c 'dpkg -i /tmp/rlhost_*.deb' 2>&1", path, packages "deb tar apt")
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
  good("cp -r $2/apt $1/source", path, packages "deb tar apt")
  local routes = http.routes()
  routes:files("/*path", packages "deb tar apt" .. "/apt")
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
    path, packages "deb tar apt")
  t.equal(good("cd $1 && ./here -p 1+1", path), "2\n")
  t.truthy(good("cd $1 && ls 'a place/share/doc/rlhost'", path):find "README.md")
  good("chmod -R u+w $1", path)
end)
