-- runloop.postgres: batches and scripts take effect as a whole, or not at all.

local t = require "runloop.test"
local postgres = require "runloop.postgres"

local server = t.resource(function() return t.server "postgres" end)

-- Opens a database with an empty table.
local function open(options)
  local db = t.truthy(postgres.open(server():url(), options))
  t.finally(function() db:close(0.1) end)
  t.equal(db:script "drop table if exists n; create table n (i int)", true)
  return db
end

local function count(db) return db:value "select count(*) from n" end

-- A batch is refused, and has done nothing.
local function refused(db, list, pattern)
  local nothing, message, code, details = db:batch(list)
  t.equal({ nothing, code, details.index }, { nil, "EINVAL", #list })
  t.truthy(message:find(pattern, 1, true), message)
  t.equal(count(db), 0)
end

t.describe("a batch", function()
  t.it("has done nothing if only the client finds what is wrong with an answer", function()
    local db = open { size = 1 }
    for _ = 1, 2 do
      t.error(function() db:batch { "insert into n values (1)", "select 1 as a, 2 as a" } end,
        "db:batch: entry 2: two columns are called 'a'", true)
      t.equal(count(db), 0)
    end
    local _, message, code, details = db:batch { "insert into n values (1)", { "select repeat('x', 99)", max = 50 } }
    t.equal({ code, details }, { "EMSGSIZE", { index = 2 } })
    t.falsy(message:find "may have happened")
    t.equal({ count(db), db:stats().lost }, { 0, 0 })
    for _ = 1, 2 do t.equal(db:batch { "insert into n values (1) returning i" }, { { { i = 1 } } }) end
    t.equal(db:batch { { "select 1 as a, 2 as a", lists = true } }, { { { 1, 2 } } })
    t.equal(count(db), 2)
  end)

  t.it("is rolled back if it is cancelled while its answers arrive", { real_time = true }, function()
    local db = open { size = 1 }
    t.equal({ db:batch { "insert into n values (1)", "select pg_sleep(9)", timeout = 0.05 } }, { nil, "timed out" })
    t.equal({ count(db), db:stats().lost }, { 0, 0 })
  end)

  t.it("in a transaction makes it fail", function()
    local db = open()
    local tx <close> = t.truthy(db:begin())
    t.error(function() tx:batch { "insert into n values (1)", "select 1 as a, 2 as a" } end, "two columns", true)
    t.equal(select(4, tx:value "select 1"), { code = "25P02", severity = "ERROR" })
  end)

  t.it("must not contain statements that end a transaction", function()
    local db = open()
    refused(db, { "insert into n values (1)", "commit" }, "must not contain 'commit'")
    refused(db, { "insert into n values (1)", " /* a */ END" }, "must not contain 'end'")
    refused(db, { "insert into n values (1)", "copy n to stdout" }, "use copy()")
  end)
end)

t.describe("a script", function()
  t.it("must not contain statements that end its transaction", function()
    local db = open()
    for text, word in pairs {
      ["insert into n values (1); commit; insert into nowhere values (1)"] = "commit",
      ["insert into n values (1); COMMIT"] = "commit",
      ["/* /* ; */ ' */ insert into n values (1); -- '\n end; begin"] = "end",
      [ [[select E'\''; rollback; --']] ] = "rollback",
      ["select 'a''b', \"a;b\", $$;$$, $b$ $$ $b$; start transaction"] = "start",
      ["insert into n values (1); savepoint a"] = "savepoint",
      ["insert into n values (1); prepare transaction 'a'"] = "prepare transaction",
      ["insert into n values (1); copy n to stdout"] = "copy",
      ["create function g() returns int language sql begin atomic select 1; end; abort"] = "abort",
    } do
      local nothing, message, code = db:script(text)
      t.equal({ nothing, code }, { nil, "EINVAL" })
      t.truthy(message:find("must not contain '" .. word .. "'", 1, true), message)
    end
    t.equal(count(db), 0)
  end)

  t.it("may contain such words in texts, names and functions", function()
    local db = open()
    t.equal(db:script [[
      do $a$ begin perform 1; end $a$;
      select '; commit', e'\'; commit', E'a'
        '\'; commit', "; commit", $$; commit $$, $b$; $$ commit $b$ from (select 1 as "; commit") as begin1;
      create or replace function f(flag bool) returns text language sql begin atomic
        select case when flag then 'a' else 'b' end; select 'commit';
      end;
      create rule r as on delete to n do also (select 1; select 2);
      prepare one as select 1; drop function f; insert into n values (1)]], true)
    t.equal(count(db), 1)
  end)

  t.it("may contain such words in texts whose backslashes are escapes", function()
    local db = open { setup = { "set standard_conforming_strings = off", "set escape_string_warning = off" } }
    t.equal(db:script [[insert into n values (1); select '\'; commit; select \'']], true)
    t.equal(select(3, db:script [[select '\\'; commit; select '']]), "EINVAL")
    t.equal(count(db), 1)
  end)
end)

t.it("a transaction is ended by its commit and rollback only", function()
  local db = open()
  local tx <close> = t.truthy(db:begin())
  t.equal(tx:execute "insert into n values (1)", 1)
  for _, text in ipairs { "commit", "Rollback", "-- a\nend", "begin", "savepoint a" } do
    t.equal(select(3, tx:execute(text)), "EINVAL")
  end
  t.equal(select(3, tx:script "commit; begin"), "EINVAL")
  t.equal(tx:rollback(), true)
  t.equal(count(db), 0)
end)
