// Jobs and replies for Lua. These functions raise errors in Lua's way, so that only Lua may call them.
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

enum { BYTES_CLASS = 1 };  // the upvalue with the metatable of `sqlite.bytes`

// Begins a job. No function that may raise can be called before `end_job`.
static void begin_job(block *to, int operation, int flags) {
  static const csqlite_job empty = {0};
  block_put(to, &empty, sizeof empty);
  block_byte(to, operation);
  block_byte(to, flags);
}

// Pushes the job; nil if there is no memory.
static int end_job(lua_State *L, block *it) {
  if (it->failed) {
    free(it->bytes);
    return lua_pushnil(L), 1;
  }
  csqlite_job *job = (csqlite_job *)(void *)it->bytes;
  job->length = it->length - sizeof *job;
  return csqlite_lend(L, job, LENT_REQUEST), 1;
}

// Puts a value of `sqlite.bytes` into the job. Returns 0 if the value at the index is not one.
static int put_wrapped(lua_State *L, block *to, int index) {
  size_t length;
  if (!lua_getmetatable(L, index)) return 0;
  int is_bytes = lua_rawequal(L, -1, lua_upvalueindex(BYTES_CLASS));
  lua_pop(L, 1);
  if (!is_bytes) return 0;
  lua_rawgeti(L, index, 1);
  const char *bytes = lua_tolstring(L, -1, &length);
  block_byte(to, VALUE_BYTES);
  block_text(to, bytes, length);
  lua_pop(L, 1);
  return 1;
}

// Puts the value at a stack index into the job. Returns 0 if no column can hold it.
static int put_value(lua_State *L, block *to, int index) {
  size_t length;
  uint64_t bits;
  double number;
  switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL: block_byte(to, VALUE_NIL); return 1;
    case LUA_TBOOLEAN:
      block_byte(to, VALUE_INTEGER);
      block_number(to, (uint64_t)lua_toboolean(L, index));
      return 1;
    case LUA_TLIGHTUSERDATA: block_byte(to, VALUE_NIL); return lua_touserdata(L, index) == NULL;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        block_byte(to, VALUE_INTEGER);
        block_number(to, (uint64_t)lua_tointeger(L, index));
        return 1;
      }
      number = lua_tonumber(L, index);
      memcpy(&bits, &number, sizeof bits);
      block_byte(to, VALUE_FLOAT);
      block_number(to, bits);
      return !isnan(number);
    case LUA_TSTRING: {
      const char *text = lua_tolstring(L, index, &length);
      block_byte(to, VALUE_TEXT);
      block_text(to, text, length);
      return 1;
    }
    case LUA_TTABLE: return put_wrapped(L, to, index);
    default: return 0;
  }
}

static void put_head(block *to, lua_Integer bytes, lua_Integer rows, lua_Integer count) {
  block_number(to, (uint64_t)bytes);
  block_number(to, (uint64_t)rows);
  block_number(to, (uint64_t)count);
}

// run(flags, most bytes, most rows, text, values…) -> job; or nil and the number of a value that no column can hold
static int make_run(lua_State *L) {
  enum { FLAGS = 1, BYTES, ROWS, TEXT, VALUES };
  size_t length;
  int count = lua_gettop(L) - TEXT, flags = (int)luaL_checkinteger(L, FLAGS);
  lua_Integer bytes = luaL_checkinteger(L, BYTES), rows = luaL_checkinteger(L, ROWS);
  const char *text = luaL_checklstring(L, TEXT, &length);
  luaL_checkstack(L, 4, NULL);
  block to = {0};
  begin_job(&to, REQUEST_RUN, flags);
  put_head(&to, bytes, rows, count);
  block_text(&to, text, length);
  for (int i = 0; i < count; i++) {
    if (put_value(L, &to, VALUES + i)) continue;
    free(to.bytes);
    lua_pushnil(L);
    lua_pushinteger(L, i + 1);
    return 2;
  }
  return end_job(L, &to);
}

// Writes a statement of a batch: a table with its parameters at 1 to `count`, and after them its text, `count`, `max`
// and flags. Returns 0, or the number of a parameter that no column can hold.
static lua_Integer put_statement(lua_State *L, block *to, int table) {
  size_t length, start = to->length;
  const char *text = lua_tolstring(L, table + 1, &length);
  lua_Integer count = lua_tointeger(L, table + 2);
  block_number(to, 0);
  block_byte(to, REQUEST_RUN);
  block_byte(to, (int)lua_tointeger(L, table + 4));
  put_head(to, lua_tointeger(L, table + 3), 0, count);
  block_text(to, text, length);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, table, i);
    int is_good = put_value(L, to, lua_gettop(L));
    lua_pop(L, 1);
    if (!is_good) return i;
  }
  uint64_t size = to->length - start - sizeof size;
  if (!to->failed) memcpy(to->bytes + start, &size, sizeof size);
  return 0;
}

// The largest number of parameters that a statement can have.
enum { MOST_PARAMETERS = 32766 };

// Raises unless the list has a table, a text, and the number of its parameters for each statement.
static void check_statements(lua_State *L, lua_Integer count) {
  for (lua_Integer i = 1; i + 4 <= count; i += 5) {
    int is_table = lua_rawgeti(L, 1, i) == LUA_TTABLE, is_text = lua_rawgeti(L, 1, i + 1) == LUA_TSTRING;
    lua_rawgeti(L, 1, i + 2);
    luaL_argcheck(L, is_table && is_text && lua_tointeger(L, -1) <= MOST_PARAMETERS, 1, "not a list of statements");
    lua_pop(L, 3);
  }
}

// batch({table, text, count, max, flags, …}, flags) -> job; or nil, and the numbers of a statement and its bad
// parameter
static int make_batch(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
  int flags = (int)luaL_checkinteger(L, 2);
  luaL_checkstack(L, 12, NULL);
  lua_settop(L, 1);
  check_statements(L, count);
  block to = {0};
  begin_job(&to, REQUEST_BATCH, flags);
  for (lua_Integer i = 1; i + 4 <= count; i += 5) {
    for (int k = 0; k < 5; k++) lua_rawgeti(L, 1, i + k);
    lua_Integer bad = put_statement(L, &to, 2);
    lua_settop(L, 1);
    if (!bad) continue;
    free(to.bytes);
    lua_pushnil(L);
    lua_pushinteger(L, i / 5 + 1);
    lua_pushinteger(L, bad);
    return 3;
  }
  return end_job(L, &to);
}

// opening(flags, milliseconds, path, batch or nil) -> the encoded request with which each connection of a pool is
// opened
static int make_opening(lua_State *L) {
  size_t length;
  int flags = (int)luaL_checkinteger(L, 1);
  lua_Integer wait = luaL_checkinteger(L, 2);
  const char *path = luaL_checklstring(L, 3, &length);
  csqlite_job *setup = csqlite_take_request(L, 4);
  block to = {0};
  block_number(&to, 2 + 2 * sizeof(uint64_t) + length);
  block_byte(&to, REQUEST_OPEN);
  block_byte(&to, flags);
  block_number(&to, (uint64_t)wait);
  block_text(&to, path, length);
  // The encoded statements of a batch already begin with their lengths.
  if (setup) block_put(&to, setup->request + 2, setup->length - 2);
  if (setup) csqlite_job_free(setup);
  if (to.failed) lua_pushnil(L);
  else lua_pushlstring(L, to.bytes, to.length);
  free(to.bytes);
  return 1;
}

// lot(cursor, most bytes) -> job for the next rows; lot(cursor) -> job that closes the cursor
static int make_lot(lua_State *L) {
  int is_drop = lua_isnoneornil(L, 2);
  lua_Integer cursor = luaL_checkinteger(L, 1), most = luaL_optinteger(L, 2, 0);
  block to = {0};
  begin_job(&to, is_drop ? REQUEST_DROP : REQUEST_LOT, 0);
  block_number(&to, (uint64_t)cursor);
  if (!is_drop) block_number(&to, (uint64_t)most);
  return end_job(L, &to);
}

// script(text, flags) -> job
static int make_script(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  int flags = (int)luaL_checkinteger(L, 2);
  block to = {0};
  begin_job(&to, REQUEST_SCRIPT, flags);
  block_text(&to, text, length);
  return end_job(L, &to);
}

// Replies -------------------------------------------------------------------------------------------------------------

enum { REPLY = 1, MODE, AS_LISTS, NULLS_TOO };

static void push_value(lua_State *L, block_reader *from, int has_nulls) {
  size_t length;
  double number;
  uint64_t bits;
  switch (read_byte(from)) {
    case VALUE_INTEGER: lua_pushinteger(L, (lua_Integer)read_number(from)); break;
    case VALUE_FLOAT:
      bits = read_number(from);
      memcpy(&number, &bits, sizeof number);
      lua_pushnumber(L, number);
      break;
    case VALUE_TEXT: {
      const char *text = read_text(from, &length);
      lua_pushlstring(L, text, length);
      break;
    }
    default:
      if (has_nulls) lua_pushlightuserdata(L, NULL);
      else lua_pushnil(L);
  }
}

// Pushes a row; `names` is the index of the table with the columns' names.
static void push_row(lua_State *L, block_reader *from, int columns, int names) {
  int is_list = lua_toboolean(L, AS_LISTS), has_nulls = lua_toboolean(L, NULLS_TOO);
  lua_createtable(L, is_list ? columns : 0, is_list ? 0 : columns);
  for (int i = 1; i <= columns; i++) {
    if (is_list) {
      push_value(L, from, has_nulls);
      lua_rawseti(L, -2, i);
    } else {
      lua_rawgeti(L, names, i);
      push_value(L, from, has_nulls);
      lua_rawset(L, -3);
    }
  }
}

static int push_failure(lua_State *L, block_reader *from) {
  size_t kind_length, name_length, length;
  const char *kind = read_text(from, &kind_length), *name = read_text(from, &name_length);
  const char *text = read_text(from, &length);
  uint64_t index = read_number(from);
  lua_pushnil(L);
  luaL_Buffer message;
  luaL_buffinit(L, &message);
  luaL_addlstring(&message, kind, kind_length);
  luaL_addstring(&message, ": ");
  luaL_addlstring(&message, text, length);
  luaL_addstring(&message, " (");
  luaL_addlstring(&message, name, name_length);
  luaL_addstring(&message, ")");
  luaL_pushresult(&message);
  lua_pushlstring(L, kind, kind_length);
  lua_createtable(L, 0, 2);
  lua_pushlstring(L, name, name_length);
  lua_setfield(L, -2, "code");
  if (index) {
    lua_pushinteger(L, (lua_Integer)index);
    lua_setfield(L, -2, "index");
  }
  return 4;
}

static int push_rows(lua_State *L, block_reader *from, const char *mode, int64_t taken) {
  uint64_t cursor = read_number(from), changes = read_number(from);
  int columns = (int)read_number(from);
  size_t length;
  if (*mode == 't') return lua_pushinteger(L, (lua_Integer)taken), 1;
  if (*mode == 'e') return lua_pushinteger(L, (lua_Integer)changes), 1;
  if (*mode == 'v') {
    for (int i = 1; i <= columns; i++) read_text(from, &length);
    if (from->at == from->end || columns == 0) return lua_pushnil(L), 1;
    return push_value(L, from, lua_toboolean(L, NULLS_TOO)), 1;
  }
  lua_createtable(L, columns, 0);
  int names = lua_gettop(L);
  for (int i = 1; i <= columns; i++) {
    const char *name = read_text(from, &length);
    lua_pushlstring(L, name, length);
    lua_rawseti(L, names, i);
  }
  if (*mode == 'o') {
    if (from->at == from->end || columns == 0) return lua_pushnil(L), 1;
    return push_row(L, from, columns, names), 1;
  }
  if (*mode == 'b' && columns == 0) return lua_pushinteger(L, (lua_Integer)changes), 1;
  lua_createtable(L, 0, 0);
  for (lua_Integer i = 1; from->at < from->end && columns > 0 && !from->failed; i++) {
    push_row(L, from, columns, names);
    lua_rawseti(L, -2, i);
  }
  lua_pushvalue(L, names);
  if (*mode != 'r') return 2;
  if (cursor) lua_pushinteger(L, (lua_Integer)cursor);
  else lua_pushnil(L);
  lua_pushinteger(L, (lua_Integer)taken);
  return 4;
}

static int push_batch(lua_State *L, block_reader *from) {
  size_t length;
  lua_newtable(L);
  int results = lua_gettop(L);
  for (lua_Integer i = 1; from->at < from->end && !from->failed; i++) {
    int flags = read_byte(from);
    const char *one = read_text(from, &length);
    block_reader part = {one + 1, one + length, 0};
    lua_pushboolean(L, flags & LISTS);
    lua_replace(L, AS_LISTS);
    lua_pushboolean(L, flags & NULLS);
    lua_replace(L, NULLS_TOO);
    lua_pushvalue(L, -push_rows(L, &part, "batch", 0));
    lua_rawseti(L, results, i);
    lua_settop(L, results);
  }
  return 1;
}

// Pushes false, a word for the problem, details of the problem, and the index of the statement in a batch.
static int push_mistake(lua_State *L, int kind, block_reader *from) {
  static const char *const words[] = {
      [REPLY_WRITES] = "writes", [REPLY_PARAMETERS] = "parameters", [REPLY_COLUMN] = "column", [REPLY_NAMED] = "named",
      [REPLY_LATE] = "late",     [REPLY_CLOSED] = "closed"};
  size_t length;
  lua_pushboolean(L, 0);
  lua_pushstring(L, words[kind]);
  if (kind == REPLY_PARAMETERS) {
    lua_pushinteger(L, (lua_Integer)read_number(from));
  } else if (kind == REPLY_COLUMN || kind == REPLY_NAMED) {
    const char *name = read_text(from, &length);
    lua_pushlstring(L, name, length);
  } else {
    return 2;
  }
  return lua_pushinteger(L, (lua_Integer)read_number(from)), 4;
}

// reply(job, mode, lists, nulls): "query" -> rows, names; "rows" -> these, and the cursor and the connection if there
// are more; "one" -> row; "value" -> value; "execute" -> changes; "take" -> connection; for a batch, its results. A
// failure -> nil, message, code, details. Another problem -> false and a word: see push_mistake.
static int read_reply(lua_State *L) {
  csqlite_job *job = csqlite_lent_at(L, REPLY, LENT_REPLY);
  if (!job) return luaL_typeerror(L, REPLY, "job");
  const char *mode = luaL_checkstring(L, MODE);
  lua_settop(L, NULLS_TOO);
  luaL_checkstack(L, 20, NULL);
  block_reader from = {job->reply.bytes, job->reply.bytes + job->reply.length, 0};
  int kind = read_byte(&from), count;
  if (job->reply.failed || !job->reply.bytes) {
    lua_pushnil(L);
    lua_pushliteral(L, "ENOMEM: out of memory");
    lua_pushliteral(L, "ENOMEM");
    count = 3;
  } else if (kind == REPLY_ROWS) {
    count = push_rows(L, &from, mode, job->taken);
  } else if (kind == REPLY_FAILURE) {
    count = push_failure(L, &from);
  } else if (kind == REPLY_BATCH) {
    count = push_batch(L, &from);
  } else {
    count = push_mistake(L, kind, &from);
  }
  // The job itself is kept until its task waits again.
  free(job->reply.bytes);
  job->reply = (block){0};
  return count;
}

int csqlite_open_codec(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"run", make_run},     {"opening", make_opening}, {"lot", make_lot}, {"script", make_script},
      {"batch", make_batch}, {"reply", read_reply},     {NULL, NULL}};
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_newtable(L);
  lua_insert(L, 1);
  luaL_setfuncs(L, functions, 1);
  return 1;
}
