-- scripts/package: the names of the parts, equal bytes, architectures, signatures, misuse.

local t = require "runloop.test"
local rl = require "runloop"
local packing = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../Support/packing.lua")

local ROOT, PROGRAM, SMALL, REAL = packing.root, packing.program, packing.small, packing.real
local VERSION, it, with, good = packing.version, packing.it, packing.with, packing.good
local directory, package = packing.directory, packing.package

it("each part is made, and its name has the version of the program", REAL, function()
  local path <const>, gone <close> = directory()
  local result = package(("--program %s --output %s"):format(SMALL, path))
  t.equal(result.code, 0, result.errors)
  local names = good("cd $1 && ls -d *", path)
  t.equal(names, ("apt\nrlhost-%s-linux-x86_64.tar.gz\nrlhost-%s-oci-amd64.tar\nrlhost_%s-1_amd64.deb\n")
    :format(VERSION, VERSION, VERSION))
  t.equal(good(PROGRAM .. " -p rl.version"), VERSION .. "\n")
  t.truthy(good(PROGRAM .. " --version"):find("rlhost " .. VERSION .. " ", 1, true))
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

with "gpg"("a key signs the package source", REAL, function()
  local path <const>, gone <close> = directory()
  good([[export GNUPGHOME=$1/keys && mkdir -m 700 $GNUPGHOME &&
    gpg --batch --quiet --passphrase '' --quick-generate-key tester@example.org ed25519 sign never &&
    $3/scripts/package --program $4 --output $1/out --sign tester@example.org apt >&2 && cd $1/out/apt/dists/stable &&
    gpg --batch --verify Release.gpg Release 2>/dev/null && gpg --batch --decrypt InRelease 2>/dev/null | cmp - Release;
    s=$?; gpgconf --kill gpg-agent; exit $s]], path, "", ROOT, SMALL)
end)

it("a missing tool is reported in one line, and wrong arguments have status 64", REAL, function()
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
