-- runloop.sqlite: files that cannot be opened or written, and disks that are full or read-only.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local sqlite = require "runloop.sqlite"

-- Returns a directory that goes with the test.
local function directory()
  local path = t.truthy(fs.temporary_directory())
  t.finally(function() fs.remove(path, { recursive = true }) end)
  return path
end

local function closed(path, options)
  local db = t.truthy(sqlite.open(path, options))
  t.equal(db:script "create table n (i integer); insert into n values (7)", true)
  db:close()
end

-- Runs a script in a small file system of its own, mounted at arg[1], and returns its output.
local function in_small_disk(script)
  local path = directory()
  fs.write(path .. "/script.lua", script)
  fs.make_directory(path .. "/disk")
  local result = process.run {
    "unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$1" || exit 9; exec "$2" "$3" "$1"', "sh",
    path .. "/disk", t.rlhost, path .. "/script.lua",
  }
  if not result or result.code == 9 or result.errors:find "^unshare" then t.skip "no file system can be mounted" end
  t.equal(result.errors, "")
  return result.output
end

t.it("a full disk gives ENOSPC, and leaves the database intact", function()
  t.equal(in_small_disk [[
    local sqlite = require "runloop.sqlite"
    local db = assert(sqlite.open(arg[1] .. "/x.db"))
    assert(db:execute "create table n (b blob)")
    local count, code = 0, nil
    repeat
      local tx = db:begin()
      local done, message, problem, details = tx:execute "insert into n values (zeroblob(20000))"
      if done then done, message, problem, details = tx:commit() end
      if done then count = count + 1 end
      code = problem and problem .. " " .. details.code
      tx:rollback()
    until code
    print(code, count > 9, count == db:value "select count(*) from n", (db:value "pragma integrity_check"))
    print((select(3, sqlite.open(arg[1] .. "/y.db"))))
    db:close()]], "ENOSPC SQLITE_FULL\ttrue\ttrue\tok\nENOSPC\n")
end)

t.it("on a full disk each of the writes that wait together has its own result", function()
  t.equal(in_small_disk [[
    local rl, sqlite = require "runloop", require "runloop.sqlite"
    local db = assert(sqlite.open(arg[1] .. "/x.db"))
    assert(db:script "create table n (i integer, b blob)")
    local count, codes = 0, {}
    for round = 1, 5 do
      local tasks, size = {}, round == 1 and 100 or 12000
      for i = 1, 40 do
        tasks[i] = rl.task(function() return db:execute("insert into n values ($1, zeroblob($2))", i, size) end)
      end
      for i = 1, 40 do
        local done, _, code, details = tasks[i]:await()
        if done then count = count + 1 else codes[code .. " " .. details.code] = true end
      end
    end
    print(count > 40 and count < 200, count == db:value "select count(*) from n", (db:value "pragma integrity_check"))
    for code in pairs(codes) do print(code) end
    db:close()]], "true\ttrue\tok\nENOSPC SQLITE_FULL\n")
end)

t.it("a file on a read-only file system can be read", function()
  t.equal(in_small_disk [[
    local sqlite, process = require "runloop.sqlite", require "runloop.process"
    for _, name in ipairs { "/a%#?.db", "/b.db" } do
      local db = assert(sqlite.open(arg[1] .. name))
      assert(db:script "create table n (i integer); insert into n values (7)")
      db:close()
    end
    io.open(arg[1] .. "/b.db-wal", "w"):close()
    process.shell("mount -o remount,ro " .. arg[1])
    local function tell(...) print((select(2, ...):gsub("/tmp[^)]*/disk", "…", 1)), (select(3, ...))) end
    tell(sqlite.open(arg[1] .. "/a%#?.db"))
    tell(sqlite.open(arg[1] .. "/new.db"))
    tell(sqlite.open(arg[1] .. "/b.db", { read_only = true }))
    local db = assert(sqlite.open(arg[1] .. "/a%#?.db", { read_only = true }))
    print(db:value "select i from n", (select(3, db:execute "insert into n values (8)")))
    db:close()]], [[
EROFS: Read-only file system (…/a%#?.db) (SQLITE_CANTOPEN)	EROFS
EROFS: Read-only file system (…) (SQLITE_CANTOPEN)	EROFS
EROFS: Read-only file system (…) (SQLITE_CANTOPEN)	EROFS
7	EROFS
]])
end)

t.it("the error for a path that cannot be opened has the system's reason", function()
  local path = directory()
  local function problem(...)
    local _, message, code, details = sqlite.open(...)
    return { message:gsub("/tmp/[^/)]*", "…"):gsub(" %(SQLITE.*", ""), code, details.code }
  end
  t.equal(problem(path), { "EISDIR: Is a directory (…)", "EISDIR", "SQLITE_CANTOPEN" })
  t.equal(problem(path .. "/no/x.db"), { "ENOENT: No such file or directory (…/no/x.db)", "ENOENT", "SQLITE_CANTOPEN" })
  t.equal(problem(path .. "/x.db", { create = false })[2], "ENOENT")
  t.equal(problem(path .. "/x.db", { read_only = true })[2], "ENOENT")
  fs.write(path .. "/junk.db", ("no database "):rep(1000))
  t.equal(problem(path .. "/junk.db"), { "EIO: file is not a database", "EIO", "SQLITE_NOTADB" })
  closed(path .. "/good.db")
  process.run { "chmod", "755", path }
  process.run { "chmod", "644", path .. "/good.db" }
  local script = path .. "/script.lua"
  fs.write(script, [[
    local sqlite = require "runloop.sqlite"
    for _, name in ipairs { "good.db", "new.db" } do print((select(2, sqlite.open(arg[1] .. "/" .. name)))) end]])
  local result = process.run { "setpriv", "--reuid=65534", "--clear-groups", t.rlhost, script, path }
  if not result or result.code ~= 0 then t.skip "no other user" end
  t.equal((result.output:gsub("/tmp/[^/)]*", "…")), [[
EACCES: Permission denied (…/good.db) (SQLITE_READONLY)
EACCES: Permission denied (…) (SQLITE_CANTOPEN)
]])
end)

t.it("the error for setup has the index of the wrong statement", function()
  local function open(...) return sqlite.open(":memory:", { setup = { "select 1", ... } }) end
  t.equal({ select(3, open "select nothing from nowhere") }, { "EINVAL", { code = "SQLITE_ERROR", index = 2 } })
  t.error(function() open "select $1" end, "sqlite.open: setup: entry 2: the statement has 1 parameter, got 0", true)
end)

t.it("each entry of a batch has its own options", function()
  local db <close> = t.truthy(sqlite.open ":memory:")
  t.equal(db:batch {
    { "select 1 as a, null as a", lists = true, nulls = true }, { "select 1 as a, null as b", nulls = true },
    { "select 2 as a, null as b", lists = true }, "select 3 as a, null as b",
  }, { { { 1, sqlite.null } }, { { a = 1, b = sqlite.null } }, { { 2 } }, { { a = 3 } } })
end)
