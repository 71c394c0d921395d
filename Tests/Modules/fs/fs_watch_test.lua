-- runloop.fs: changes in watched directories, each of which is reported once and correctly.

local rl, fs, t = require "runloop", require "runloop.fs", require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local write, told, scales = support.write, support.told, support.scales

t.describe("fs.watch", function()
  local directory, watcher
  local function watch(options)
    watcher = assert(fs.watch(directory, options or {}))
  end

  t.before_each(function()
    directory = assert(fs.temporary_directory "watch")
    write(directory .. "/old", "x")
  end)
  t.after_each(function()
    if watcher then watcher:invalidate() end
    assert(fs.remove(directory, { recursive = true }))
  end)

  t.it("reports a new file once, and an existing one when its writer closes it", { real_time = true }, function()
    watch()
    local file = assert(io.open(directory .. "/old", "a"))
    file:write "more"
    file:flush()
    t.equal(told(watcher, directory), "")
    file:close()
    write(directory .. "/new", "y")
    t.equal(told(watcher, directory), "changed old; created new")
  end)

  t.it("reports each write if the option asks for it", { real_time = true }, function()
    watch { while_writing = true }
    local file <close> = assert(io.open(directory .. "/old", "a"))
    file:write "more"
    file:flush()
    t.equal(told(watcher, directory), "changed old")
  end)

  t.it("reports an editor's atomic save as a change, with and without a backup", { real_time = true }, function()
    watch()
    write(directory .. "/.old.swp", "new")
    assert(os.rename(directory .. "/.old.swp", directory .. "/old"))
    t.equal(told(watcher, directory), "changed old")
    assert(os.rename(directory .. "/old", directory .. "/old~"))
    write(directory .. "/old", "newer")
    assert(os.remove(directory .. "/old~"))
    t.equal(told(watcher, directory), "changed old")
  end)

  t.it("reports a rename as one change, and a move elsewhere as a removal", { real_time = true }, function()
    local outside = assert(fs.temporary_directory "outside")
    watch()
    assert(os.rename(directory .. "/old", directory .. "/other"))
    t.equal(told(watcher, directory), "renamed other from old")
    assert(os.rename(directory .. "/other", outside .. "/x"))
    t.equal(told(watcher, directory), "removed other")
    assert(os.rename(outside .. "/x", directory .. "/back"))
    t.equal(told(watcher, directory), "created back")
    assert(fs.remove(outside, { recursive = true }))
  end)

  t.it("does not report files that were made and removed again", { real_time = true }, function()
    watch()
    write(directory .. "/passing", "x")
    os.remove(directory .. "/passing")
    t.equal(told(watcher, directory), "")
  end)

  t.it("reports the contents of a new directory, its rename and its removal", { real_time = true }, function()
    watch { recursive = true }
    os.execute("mkdir -p " .. directory .. "/a/b && echo x > " .. directory .. "/a/b/file")
    t.equal(told(watcher, directory), "created a/; created a/b/; created a/b/file")
    assert(os.rename(directory .. "/a", directory .. "/c"))
    t.equal(told(watcher, directory), "renamed c from a/")
    write(directory .. "/c/b/file", "y")
    t.equal(told(watcher, directory), "changed c/b/file")
    assert(fs.remove(directory .. "/c", { recursive = true }))
    t.equal(told(watcher, directory), "removed c/b/file; removed c/b/; removed c/")
  end)

  t.it("follows replaced links on the way to the watched path", { real_time = true }, function()
    os.execute("cd " .. directory
      .. " && rm -rf * && mkdir -p 1/s 2/s app && touch 1/a 1/b 1/s/x 2/b 2/c"
      .. " && ln -s 1 current && ln -s ../current app/now")
    local function run(commands)
      os.execute("cd " .. directory .. " && " .. commands)
      return told(watcher, directory)
    end
    local function sorted(text)
      local list = {}
      for line in text:gmatch "[^;]+" do list[#list + 1] = line:match "^ *(.*)" end
      table.sort(list)
      return table.concat(list, "; ")
    end
    for _, root in ipairs { "current", "app/now" } do
      watcher = assert(fs.watch(directory .. "/" .. root, { recursive = true }))
      t.equal(run "touch 1/new", ("created %s/new"):format(root))
      t.equal(sorted(run "ln -s 2 next && mv -T next current"),
        (("changed R/; changed R/b; changed R/s/; created R/c; removed R/a; removed R/new; removed R/s/x")
          :gsub("R", root)))
      t.equal(run "touch 1/z 2/y", ("created %s/y"):format(root))
      t.equal(sorted(run "ln -sfn 1 current && rm 1/z 1/new 2/y && ln -s 1 beside"),
        (("changed R/; changed R/b; changed R/s/; created R/a; created R/s/x; removed R/c; removed R/y")
          :gsub("R", root)))
      t.equal(sorted(run "rm current beside"),
        (("removed R/; removed R/a; removed R/b; removed R/s/; removed R/s/x"):gsub("R", root)))
      t.equal(sorted(run "ln -s 1 current"),
        (("created R/; created R/a; created R/b; created R/s/; created R/s/x"):gsub("R", root)))
      watcher:invalidate()
    end
    watcher = assert(fs.watch(directory .. "/current/b", {}))
    t.equal(run "ln -s 2 next && mv -T next current", "changed current/b")
    t.equal(run "touch 1/b", "")
    t.equal(run "touch 2/b", "changed current/b")
  end)

  t.it("ignores paths by pattern and by function", { real_time = true }, function()
    watch { recursive = true, ignore = { "*.o", "build/*" } }
    os.execute("cd " .. directory .. " && mkdir build && touch x.o build/y x.c")
    t.equal(told(watcher, directory), "created build/; created x.c")
    watcher:invalidate()
    watcher = assert(fs.watch(directory, { ignore = function(path) return path:find "^x" end }))
    os.execute("cd " .. directory .. " && touch x.h z")
    t.equal(told(watcher, directory), "created z")
    watcher:invalidate()
    -- An error in the callback is reported, and loses no change.
    local seen
    rl.on_error(function(problem) seen = problem end)
    local function ignore(path) if path:find "bad" then error("bad indeed", 0) end end
    watcher = assert(fs.watch(directory, { recursive = true, ignore = ignore }))
    os.execute("cd " .. directory .. " && touch good1 bad1 good2 && mkdir d && touch d/f")
    t.equal(told(watcher, directory), "created good1; created bad1; created good2; created d/; created d/f")
    t.equal(seen, "bad indeed")
    rl.on_error(nil)
  end)

  t.it("reports the removal of a large tree in linear time", { real_time = true, timeout = 60 }, function()
    local function cost(count)
      os.execute(("cd %s && mkdir d && cd d && seq %d | xargs mkdir && seq %d | sed 's,$,/f,' | xargs touch")
        :format(directory, count, count))
      watcher = assert(fs.watch(directory, { recursive = true }))
      os.execute(("rm -rf %s/d"):format(directory))
      local before = os.clock()
      t.equal(#watcher:next(20), 2 * count + 1)
      watcher:invalidate()
      return os.clock() - before
    end
    scales(cost, 48, 480, 40)
  end)

  t.it("watches a file at the same cost in a directory of any size", { real_time = true, timeout = 60 }, function()
    scales(function(count)
      os.execute(("cd %s && rm -f f* && seq -f f%%g %d | xargs touch"):format(directory, count))
      local before, watchers = os.clock(), {}
      for number = 1, 25 do watchers[number] = assert(fs.watch(directory .. "/f" .. number, {})) end
      local cost = os.clock() - before
      write(directory .. "/f2", "x")
      write(directory .. "/f3", "x")
      t.equal(told(watchers[2], directory), "changed f2")
      for _, each in ipairs(watchers) do each:invalidate() end
      return cost
    end, 200, 2500, 6)
  end)

  t.it("watches a single file through its directory, also when it is replaced", { real_time = true }, function()
    watcher = assert(fs.watch(directory .. "/old", {}))
    write(directory .. "/other", "x")
    write(directory .. "/new", "x")
    assert(os.rename(directory .. "/new", directory .. "/old"))
    t.equal(told(watcher, directory), "changed old")
    write(directory .. "/old", "again")
    t.equal(told(watcher, directory), "changed old")
  end)

  t.it("calls back once at a time; changes meanwhile are reported together", { real_time = true }, function()
    local calls, inside = {}, 0
    watcher = assert(fs.watch(directory, { latency = 0 }, function(changes)
      inside = inside + 1
      t.equal(inside, 1)
      calls[#calls + 1] = #changes
      rl.sleep(0.1)
      inside = inside - 1
    end))
    write(directory .. "/a", "")
    t.eventually(function() return inside == 1 end)
    write(directory .. "/b", "")
    write(directory .. "/c", "")
    t.eventually(function() return #calls == 2 and inside == 0 end)
    t.equal(calls, { 1, 2 })
  end)

  t.it("delivers in the modes to which it was added, and keeps changes in others", { real_time = true }, function()
    local seen = 0
    local object <close> = assert(fs.watcher { path = directory, latency = 0, callback = function()
      seen = seen + 1
    end })
    rl.current():add(object, "editing")
    write(directory .. "/a", "")
    rl.sleep(0.1)
    t.equal(seen, 0)
    rl.current():run { mode = "editing", timeout = 0.2 }
    t.equal(seen, 1)
  end)

  t.it("watches a path again that was removed and made again, or its parent", { real_time = true }, function()
    assert(fs.make_directory(directory .. "/a/b", { parents = true }))
    for _, recursive in ipairs { false, true } do
      local below <close> = assert(fs.watch(directory .. "/a/b", { recursive = recursive }))
      assert(fs.remove(directory .. "/a/b", { recursive = true }))
      t.equal(told(below, directory), "removed a/b/")
      assert(fs.make_directory(directory .. "/a/b"))
      t.equal(told(below, directory), "created a/b/")
      write(directory .. "/a/b/file", "1")
      t.equal(told(below, directory), "created a/b/file")
      assert(fs.rename(directory .. "/a", directory .. "/c"))
      t.equal(told(below, directory), "")
      assert(fs.remove(directory .. "/c", { recursive = true }))
      t.equal(told(below, directory), "removed a/b/file; removed a/b/")
      write(directory .. "/a", "no directory")
      t.equal(told(below, directory), "")
      assert(fs.remove(directory .. "/a"))
      assert(fs.make_directory(directory .. "/a/b", { parents = true }))
      write(directory .. "/a/b/other", "1")
      t.equal(told(below, directory), "created a/b/; created a/b/other")
      assert(fs.rename(directory .. "/a/b", directory .. "/a/away"))
      t.equal(told(below, directory), "removed a/b/; removed a/b/other")
      write(directory .. "/a/away/unseen", "1")
      t.equal(told(below, directory), "")
      assert(fs.rename(directory .. "/a/away", directory .. "/a/b"))
      t.equal(told(below, directory), "created a/b/; created a/b/other; created a/b/unseen")
      assert(fs.remove(directory .. "/a/b/other"))
      assert(fs.remove(directory .. "/a/b/unseen"))
    end
    write(directory .. "/a/b/f", "1")
    local file <close> = assert(fs.watch(directory .. "/a/b/f", {}))
    assert(fs.remove(directory .. "/a", { recursive = true }))
    t.equal(told(file, directory), "removed a/b/f")
    assert(fs.make_directory(directory .. "/a/b", { parents = true }))
    write(directory .. "/a/b/f", "1")
    t.equal(told(file, directory), "created a/b/f")
  end)

  t.it("is listed as a watcher, and belongs to its thread", function()
    watch()
    rl.current():add(watcher, "default")
    local found
    for _, entry in ipairs(rl.current():inspect().modes.default) do
      if entry.kind == "watcher" then found = entry end
    end
    t.equal(found and { found.name, found.made_at ~= nil }, { directory, true })
    t.truthy(rl.why():find(('watcher "%s" (fd'):format(directory), 1, true))
    local failed, message = pcall(rl.thread, print, watcher)
    t.equal({ failed, message:match "rl.thread: .*" }, { false, "rl.thread: cannot send argument #2: watcher" })
  end)

  t.it("names wrong arguments in errors", function()
    t.equal({ fs.watch "/nowhere/at/all" }, { nil, "ENOENT: no such file or directory (/nowhere/at/all)", "ENOENT" })
    t.error(function() fs.watch(directory, { recursiv = true }, print) end, "fs.watch: unknown field 'recursiv'")
    t.error(function() fs.watch(5) end, "fs.watch: argument #1 must be a path, got 5")
    t.error(function() fs.watch("", print) end, "fs.watch: argument #1 must be a path, got \"\"")
    t.error(function() fs.watch(directory, { path = "/" }, print) end, "fs.watch: unknown field 'path'")
    t.error(function() fs.watch(directory, { latency = -1 }, print) end,
      "field 'latency' must be a number of seconds, 0 or more, got %-1")
    t.error(function() fs.watch(directory, { ignore = 5 }, print) end, "ignore must be a function or a list")
    t.error(function() fs.watcher "x" end, 'fs.watcher: argument #1 must be a table, got "x"')
    watcher = assert(fs.watch(directory, {}, print))
    t.error(function() watcher:next() end, "its changes go to its callback")
  end)
end)
