-- runloop.fs: access to files, which does not block other tasks.

local rl, fs, t = require "runloop", require "runloop.fs", require "runloop.test"

t.describe("files", function()
  local directory
  t.before_each(function() directory = assert(fs.temporary_directory()) end)
  t.after_each(function() assert(fs.remove(directory, { recursive = true })) end)

  t.it("are written and read whole, and replaced in one step", function()
    local path = directory .. "/file"
    t.equal(fs.write(path, "one\0two"), true)
    t.equal(fs.read(path), "one\0two")
    local old <close> = assert(io.open(path))
    t.equal(fs.write(path, "three"), true)
    t.equal(old:read "a", "one\0two")
    t.equal(fs.write(path, " four", { append = true }), true)
    t.equal(fs.read(path), "three four")
    t.equal(#fs.list(directory), 1)
  end)

  t.it("keep their permissions, or get the given ones, and links stay links", function()
    local path = directory .. "/file"
    assert(fs.write(path, "x", { mode = 384 }))
    t.equal(fs.stat(path).mode, 384)
    assert(fs.write(path, "y"))
    t.equal(fs.stat(path).mode, 384)
    assert(fs.symbolic_link("file", directory .. "/link"))
    assert(fs.write(directory .. "/link", "z", { sync = true }))
    t.equal(fs.read(path), "z")
    t.equal(fs.read_link(directory .. "/link"), "file")
    t.equal(fs.stat(directory .. "/link", { follow = false }).kind, "link")
    t.equal(fs.real_path(directory .. "/link"), fs.real_path(path))
  end)

  t.it("return errors of the system with the path", function()
    t.equal({ fs.read "/nowhere" }, { nil, "ENOENT: no such file or directory (/nowhere)", "ENOENT" })
    t.equal(select(3, fs.read(directory)), "EISDIR")
    t.equal(select(3, fs.write("/proc/nothing/x", "")), "ENOENT")
    assert(fs.write(directory .. "/long", ("x"):rep(100)))
    t.equal({ fs.read(directory .. "/long", 10) },
      { nil, "EFBIG: file longer than 10 bytes (" .. directory .. "/long)", "EFBIG" })
    t.equal(select(3, fs.copy(directory .. "/long", directory .. "/long")), "EINVAL")
    t.equal(select(3, fs.remove(directory)), "ENOTEMPTY")
  end)

  t.it("writing to a full device returns an error, and leaves the old file as it was", function()
    t.equal({ fs.write("/dev/full", "x") }, { nil, "ENOSPC: no space left on device (/dev/full)", "ENOSPC" })
  end)

  t.it("directories are made with their parents, walked and removed", function()
    t.equal(select(3, fs.make_directory(directory .. "/a/b")), "ENOENT")
    t.equal(fs.make_directory(directory .. "/a/b/c", { parents = true }), true)
    t.equal(fs.make_directory(directory .. "/a/b/c", { parents = true }), true)
    t.equal(select(3, fs.make_directory(directory .. "/a")), "EEXIST")
    assert(fs.write(directory .. "/a/file", "x"))
    assert(fs.copy(directory .. "/a/file", directory .. "/copy"))
    assert(fs.link(directory .. "/copy", directory .. "/hard"))
    assert(fs.rename(directory .. "/copy", directory .. "/moved"))
    assert(fs.symbolic_link("..", directory .. "/a/up"))
    local found = {}
    for path, kind in fs.walk(directory) do found[#found + 1] = path:sub(#directory + 2) .. ":" .. kind end
    t.equal(table.concat(found, " "),
      "a:directory a/b:directory a/b/c:directory a/file:file a/up:link hard:file moved:file")
    t.equal(fs.stat(directory .. "/hard").links, 2)
  end)

  t.it("are copied from the kernel's own file systems, too", { real_time = true }, function()
    local copy = directory .. "/status"
    local size = assert(fs.copy("/proc/self/status", copy))
    local text = fs.read(copy)
    t.equal(#text, size)
    t.truthy(text:find "^Name:")
    t.equal(fs.copy("/dev/null", copy), 0)
    t.equal(fs.read(copy), "")
    t.equal(select(2, fs.copy("/proc/self/status", "/dev/full")), "ENOSPC: no space left on device (/dev/full)")
  end)

  t.it("do not hold up the loop", { real_time = true }, function()
    local ticks, data = 0, ("x"):rep(30 << 20)
    local timer <close> = rl.every(0.001, function() ticks = ticks + 1 end)
    local before = ticks
    t.equal(fs.write(directory .. "/large", data), true)
    t.equal(#fs.read(directory .. "/large"), #data)
    t.truthy(ticks > before)
  end)

  t.it("raise errors that name a wrong argument", function()
    t.error(function() fs.read() end, "fs.read: argument #1 must be a path, got nothing")
    t.error(function() fs.read "" end, "got an empty one")
    t.error(function() fs.read "a\0b" end, "has a NUL in it")
    t.error(function() fs.read("x", -1) end, "argument #2 must be an integer, 0 or more")
    t.error(function() fs.write("x") end, "fs.write: argument #2 must be a string, got nothing")
    t.error(function() fs.write("x", "y", { mod = 1 }) end, "unknown field 'mod' %(did you mean 'mode'%?%)")
    t.error(function() fs.write("x", "y", { mode = 9999 }) end, "mode must be from 0")
    t.error(function() fs.rename("x") end, "fs.rename: argument #2 must be a path")
    t.error(function() fs.temporary_directory "a/b" end, "a name without '/'")
    local names = { "list", "stat", "walk", "make_directory", "remove", "link", "copy", "read_link", "real_path",
      "symbolic_link" }
    for _, name in ipairs(names) do
      t.error(function() fs[name](true) end, "fs." .. name .. ": argument #1 must be a path, got true")
    end
  end)
end)
