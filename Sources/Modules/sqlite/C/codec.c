// Requests and replies for Lua. These functions raise errors in Lua's way, so that only Lua may call them.
#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "private.h"

enum { BYTES_CLASS = 1 };  // the upvalue with the metatable of `sqlite.bytes`

static void add_number(luaL_Buffer *to, uint64_t value) { luaL_addlstring(to, (const char *)&value, sizeof value); }

static void add_text(luaL_Buffer *to, const char *text, size_t length) {
  add_number(to, length);
  luaL_addlstring(to, text, length);
}

// Adds the value at an index. Returns 0 if no column can hold it.
static int add_value(lua_State *L, luaL_Buffer *to, int index) {
  size_t length;
  uint64_t bits;
  double number;
  switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL: luaL_addchar(to, VALUE_NIL); return 1;
    case LUA_TBOOLEAN:
      luaL_addchar(to, VALUE_INTEGER);
      add_number(to, (uint64_t)lua_toboolean(L, index));
      return 1;
    case LUA_TLIGHTUSERDATA: luaL_addchar(to, VALUE_NIL); return lua_touserdata(L, index) == NULL;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        luaL_addchar(to, VALUE_INTEGER);
        add_number(to, (uint64_t)lua_tointeger(L, index));
        return 1;
      }
      number = lua_tonumber(L, index);
      memcpy(&bits, &number, sizeof bits);
      luaL_addchar(to, VALUE_FLOAT);
      add_number(to, bits);
      return !isnan(number);
    case LUA_TSTRING: {
      const char *text = lua_tolstring(L, index, &length);
      luaL_addchar(to, VALUE_TEXT);
      add_text(to, text, length);
      return 1;
    }
    default: return 0;
  }
}

// Returns the bytes that `sqlite.bytes` has wrapped at an index; NULL for other values. Leaves the stack as it was: the
// object holds them.
static const char *wrapped_bytes(lua_State *L, int index, size_t *length) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return NULL;
  int is_bytes = lua_rawequal(L, -1, lua_upvalueindex(BYTES_CLASS));
  lua_pop(L, 1);
  if (!is_bytes) return NULL;
  lua_rawgeti(L, index, 1);
  const char *bytes = lua_tolstring(L, -1, length);
  lua_pop(L, 1);
  return bytes;
}

// run(flags, most bytes, most rows, text, values, first, last) -> request; or nil and the index of a value that no
// column can hold
static int make_run(lua_State *L) {
  enum { FLAGS = 1, BYTES, ROWS, TEXT, VALUES, FIRST, LAST };
  size_t length;
  const char *text = luaL_checklstring(L, TEXT, &length);
  lua_Integer first = luaL_checkinteger(L, FIRST), last = luaL_checkinteger(L, LAST);
  // A slot for the value, below those of the buffer.
  lua_pushnil(L);
  int slot = lua_gettop(L);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  luaL_addchar(&to, REQUEST_RUN);
  luaL_addchar(&to, (char)luaL_checkinteger(L, FLAGS));
  add_number(&to, (uint64_t)luaL_checkinteger(L, BYTES));
  add_number(&to, (uint64_t)luaL_checkinteger(L, ROWS));
  add_number(&to, (uint64_t)(last >= first ? last - first + 1 : 0));
  add_text(&to, text, length);
  for (lua_Integer i = first; i <= last; i++) {
    lua_rawgeti(L, VALUES, i);
    lua_replace(L, slot);
    size_t size;
    const char *bytes = wrapped_bytes(L, slot, &size);
    if (bytes) {
      luaL_addchar(&to, VALUE_BYTES);
      add_text(&to, bytes, size);
    } else if (!add_value(L, &to, slot)) {
      lua_pushnil(L);
      lua_pushinteger(L, i);
      return 2;
    }
  }
  luaL_pushresult(&to);
  return 1;
}

// open(flags, milliseconds, path) -> request
static int make_open(lua_State *L) {
  size_t length;
  const char *path = luaL_checklstring(L, 3, &length);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  luaL_addchar(&to, REQUEST_OPEN);
  luaL_addchar(&to, (char)luaL_checkinteger(L, 1));
  add_number(&to, (uint64_t)luaL_checkinteger(L, 2));
  add_text(&to, path, length);
  luaL_pushresult(&to);
  return 1;
}

// lot(cursor, most bytes) -> request for the next rows; lot(cursor) -> request that closes the cursor
static int make_lot(lua_State *L) {
  int is_drop = lua_isnone(L, 2);
  lua_Integer cursor = luaL_checkinteger(L, 1), most = luaL_optinteger(L, 2, 0);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  luaL_addchar(&to, is_drop ? REQUEST_DROP : REQUEST_LOT);
  add_number(&to, (uint64_t)cursor);
  if (!is_drop) add_number(&to, (uint64_t)most);
  luaL_pushresult(&to);
  return 1;
}

// close() -> request
static int make_close(lua_State *L) {
  const char request[] = {REQUEST_CLOSE};
  lua_pushlstring(L, request, sizeof request);
  return 1;
}

static int make_script(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  luaL_addchar(&to, REQUEST_SCRIPT);
  add_text(&to, text, length);
  luaL_pushresult(&to);
  return 1;
}

// batch(requests) -> request
static int make_batch(lua_State *L) {
  lua_Integer count = luaL_len(L, 1);
  lua_pushnil(L);
  int slot = lua_gettop(L);
  luaL_Buffer to;
  luaL_buffinit(L, &to);
  luaL_addchar(&to, REQUEST_BATCH);
  luaL_addchar(&to, 0);
  for (lua_Integer i = 1; i <= count; i++) {
    size_t length;
    lua_rawgeti(L, 1, i);
    lua_replace(L, slot);
    const char *one = luaL_checklstring(L, slot, &length);
    add_text(&to, one, length);
  }
  luaL_pushresult(&to);
  return 1;
}

// Replies -------------------------------------------------------------------------------------------------------------

enum { REPLY = 1, MODE, AS_LISTS, NULLS };

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
  int is_list = lua_toboolean(L, AS_LISTS), has_nulls = lua_toboolean(L, NULLS);
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

static int push_rows(lua_State *L, block_reader *from, const char *mode) {
  uint64_t cursor = read_number(from), changes = read_number(from);
  int columns = (int)read_number(from);
  if (*mode == 'e') return lua_pushinteger(L, (lua_Integer)changes), 1;
  lua_createtable(L, columns, 0);
  int names = lua_gettop(L);
  size_t length;
  for (int i = 1; i <= columns; i++) {
    const char *name = read_text(from, &length);
    lua_pushlstring(L, name, length);
    lua_rawseti(L, names, i);
  }
  if (*mode == 'v') {
    if (from->at == from->end || columns == 0) return lua_pushnil(L), 1;
    return push_value(L, from, lua_toboolean(L, NULLS)), 1;
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
  if (cursor) lua_pushinteger(L, (lua_Integer)cursor);
  else lua_pushnil(L);
  return 3;
}

// reply(bytes, mode, lists, nulls): "query" -> rows, names, cursor or nil; "one" -> row; "value" -> value; "execute" ->
// changes; "batch" -> results. A failure -> nil, message, code, details. False and a kind of mistake: "writes";
// "parameters" and their number; "column" or "named" and a name.
static int read_reply(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, REPLY, &length), *mode = luaL_checkstring(L, MODE), *name;
  lua_settop(L, NULLS);
  luaL_checkstack(L, 20, NULL);
  block_reader from = {bytes, bytes + length, 0};
  switch (read_byte(&from)) {
    case REPLY_ROWS: return push_rows(L, &from, mode);
    case REPLY_FAILURE: return push_failure(L, &from);
    case REPLY_WRITES:
      lua_pushboolean(L, 0);
      lua_pushliteral(L, "writes");
      return 2;
    case REPLY_PARAMETERS:
      lua_pushboolean(L, 0);
      lua_pushliteral(L, "parameters");
      lua_pushinteger(L, (lua_Integer)read_number(&from));
      return 3;
    case REPLY_COLUMN:
    case REPLY_NAMED:
      lua_pushboolean(L, 0);
      lua_pushstring(L, bytes[0] == REPLY_COLUMN ? "column" : "named");
      name = read_text(&from, &length);
      lua_pushlstring(L, name, length);
      return 3;
    default: break;
  }
  lua_newtable(L);
  int results = lua_gettop(L);
  for (lua_Integer i = 1; from.at < from.end && !from.failed; i++) {
    const char *one = read_text(&from, &length);
    block_reader part = {one + 1, one + length, 0};
    lua_pushvalue(L, -push_rows(L, &part, "batch"));
    lua_rawseti(L, results, i);
    lua_settop(L, results);
  }
  return 1;
}

int csqlite_open_codec(lua_State *L) {
  static const luaL_Reg functions[] = {{"run", make_run},       {"open", make_open},   {"lot", make_lot},
                                       {"script", make_script}, {"close", make_close}, {"batch", make_batch},
                                       {"reply", read_reply},   {NULL, NULL}};
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_newtable(L);
  lua_insert(L, 1);
  luaL_setfuncs(L, functions, 1);
  return 1;
}
