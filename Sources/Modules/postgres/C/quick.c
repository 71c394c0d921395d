// Quick calls: calls without options, on an idle connection that has prepared their statement. Such a call leaves its
// connection among the idle ones, without a lease. Before the pool uses its idle connections, it calls `claim` for each
// of them, and makes leases for those that quick calls use.
#include <lauxlib.h>
#include <time.h>

#include "private.h"

#define POOL_CLASS "runloop.postgres.pool"

// Further upvalues of a quick method.
enum { KIND = DECODE + 1, SLOW, TAKE_OVER, BEGINS, ENDS, LABEL, POOL_META, BOX_META };
// Indices in the table of a connection, and in the table of a statement.
enum { BOX = 1, PREPARED, WATCH, WAIT };
enum { NAME = 1, LAST_USE, FIRST_LABEL };  // the labels in recordings, by kind
// Stack indices after the arguments of a call. The value replaces the statement.
enum { CONNECTION = 1, HELD, STATEMENT, VALUE = STATEMENT, ANSWER, ROWS, NAMES, TOP = NAMES };

enum { NOT_RECORDED = -1 };
typedef enum { QUERY, ROW, VALUE_CALL, EXECUTE } call_kind;
static const char *const kinds[] = {"query", "row", "value", "execute", NULL};

static double now(void) {
  struct timespec time;
  // The coarse clock takes a fifth of the time.
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int all_results(lua_State *L, int status, lua_KContext base) {
  (void)status;
  return lua_gettop(L) - (int)base;
}

// Performs the call in the usual way. The arguments are the first `count` values of the stack.
static int slow(lua_State *L, int count) {
  lua_settop(L, count);
  lua_pushvalue(L, lua_upvalueindex(SLOW));
  lua_insert(L, 1);
  lua_callk(L, count, LUA_MULTRET, 0, all_results);
  return all_results(L, LUA_OK, 0);
}

// Begins the record of a call. `statement`: its index. Returns the number of the record, or NOT_RECORDED.
static lua_Integer begin_record(lua_State *L, int statement, call_kind kind) {
  lua_pushvalue(L, lua_upvalueindex(BEGINS));
  lua_rawgeti(L, statement, FIRST_LABEL + kind);
  lua_call(L, 1, 1);
  if (lua_isboolean(L, -1)) {
    lua_pushvalue(L, lua_upvalueindex(LABEL));
    lua_pushvalue(L, 1);
    lua_pushstring(L, kinds[kind]);
    lua_pushvalue(L, 2);
    lua_call(L, 3, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, statement, FIRST_LABEL + kind);
    lua_pushvalue(L, lua_upvalueindex(BEGINS));
    lua_insert(L, -2);
    lua_call(L, 1, 1);
  }
  return lua_isinteger(L, -1) ? lua_tointeger(L, -1) : NOT_RECORDED;
}

// Ends the record of a call; its result is at the index.
static void end_record(lua_State *L, lua_Integer number, call_kind kind, int result) {
  // The numbers are those of the table COUNTS in shape.lua.
  static const int counts[] = {[QUERY] = 1, [ROW] = 2, [VALUE_CALL] = 2, [EXECUTE] = 0};
  lua_pushvalue(L, lua_upvalueindex(ENDS));
  lua_pushinteger(L, number);
  lua_pushinteger(L, counts[kind]);
  lua_pushinteger(L, 0);
  lua_pushvalue(L, result);
  lua_call(L, 4, 0);
}

static void end_call(lua_State *L, cpostgres *it, int box) {
  it->quick.is_under_way = 0;
  it->quick.pool->under_way--;
  lua_pushnil(L);
  lua_setiuservalue(L, box, TASK);
}

// Lets Lua end a call that needs more than this file provides. `changed`: a count of rows, or -1.
static int take_over(lua_State *L, int count, const char *state, int64_t changed) {
  if (lua_isnil(L, count + ANSWER)) {
    lua_newtable(L);
    lua_replace(L, count + ANSWER);
  }
  lua_pushvalue(L, count + VALUE);
  lua_setfield(L, count + ANSWER, "value");
  if (changed >= 0) {
    lua_pushinteger(L, changed);
    lua_setfield(L, count + ANSWER, "count");
  }
  if (lua_istable(L, count + ROWS)) {
    lua_pushvalue(L, count + ROWS);
    lua_setfield(L, count + ANSWER, "rows");
    lua_pushvalue(L, count + NAMES);
    lua_setfield(L, count + ANSWER, "names");
  }
  luaL_checkstack(L, count + 5, NULL);
  lua_pushvalue(L, lua_upvalueindex(TAKE_OVER));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, count + CONNECTION);
  lua_pushstring(L, state);
  lua_pushvalue(L, count + ANSWER);
  for (int i = 2; i <= count; i++) lua_pushvalue(L, i);
  lua_callk(L, count + 3, LUA_MULTRET, count + TOP, all_results);
  return all_results(L, LUA_OK, count + TOP);
}

// Pushes the results of a call that is over.
static int push_results(lua_State *L, int count, call_kind kind, const value_options *options) {
  switch (kind) {
    case QUERY: return lua_pushvalue(L, count + ROWS), lua_pushvalue(L, count + NAMES), 2;
    case ROW: return lua_rawgeti(L, count + ROWS, 1), 1;
    case VALUE_CALL: return lua_pushvalue(L, count + VALUE), 1;
    default: return lua_pushinteger(L, options->count < 0 ? 0 : options->count), 1;
  }
}

// Reads what has come of the answer, and waits for the rest. `base`: the number of arguments.
static int go_on(lua_State *L, int status, lua_KContext base) {
  (void)status;
  int count = (int)base;
  for (;;) {
    cpostgres *it = *(cpostgres **)lua_touserdata(L, count + HELD);
    if (!it) return luaL_error(L, "the connection is closed");
    call_kind kind = (call_kind)it->quick.kind;
    const cpostgres_pool *pool = it->quick.pool;
    value_options options = {
        .has_nulls = pool->has_nulls,
        .decode = lua_upvalueindex(DECODE),
        .is_list = pool->is_list,
        .has_rows = kind == QUERY || kind == ROW,
        .most = pool->most,
        .keep = kind == QUERY ? LUA_MAXINTEGER : kind != EXECUTE,
        .answer = count + ANSWER,
        .rows = count + ROWS,
        .names = count + NAMES,
        .value = count + VALUE,
        .counts = kind == EXECUTE,
        .count = it->quick.changed,
    };
    if (options.has_rows) options.placed = (lua_Integer)lua_rawlen(L, count + ROWS);
    answer_state state = cpostgres_receive(L, it, &options);
    // The count may come before the end of the answer: the server then still commits.
    it->quick.changed = options.count;
    if (state == OVER) {
      lua_Integer record = it->quick.record;
      int is_claimed = it->quick.is_claimed;
      end_call(L, it, count + HELD);
      if (is_claimed) {
        luaL_getmetafield(L, count + HELD, "on_end");
        lua_pushvalue(L, count + CONNECTION);
        // Closes the connection if the database is closed: `it` is invalid from here on.
        lua_call(L, 1, 0);
      }
      int results = push_results(L, count, kind, &options);
      if (record != NOT_RECORDED) end_record(L, record, kind, lua_gettop(L) - results + 1);
      return results;
    }
    if (state != MORE && state != UNREAD) return take_over(L, count, cpostgres_states[state], options.count);
    lua_rawgeti(L, count + CONNECTION, WAIT);
    lua_rawgeti(L, count + CONNECTION, WATCH);
    lua_pushboolean(L, state == UNREAD);
    lua_callk(L, 2, 0, base, go_on);
  }
}

// Whether the userdata at an index is an object of the class in an upvalue. Leaves a value on the stack.
static int is_of(lua_State *L, int index, int class) {
  return lua_getmetatable(L, index) && lua_rawequal(L, -1, lua_upvalueindex(class));
}

// Pushes the idle connection for a call, its box, and the statement. Returns NULL if the call has to be a slow one.
static cpostgres *find(lua_State *L, int count) {
  if (!lua_istable(L, 1) || lua_type(L, 2) != LUA_TSTRING) return NULL;
  lua_settop(L, count + STATEMENT);
  if (lua_rawgeti(L, 1, 1) != LUA_TUSERDATA || !is_of(L, count + STATEMENT + 1, POOL_META)) return NULL;
  cpostgres_pool *pool = lua_touserdata(L, count + STATEMENT + 1);
  if (!pool->is_on) return NULL;
  lua_getiuservalue(L, count + STATEMENT + 1, 1);
  if (lua_rawgeti(L, -1, (lua_Integer)lua_rawlen(L, -1)) != LUA_TTABLE) return NULL;
  lua_replace(L, count + CONNECTION);
  if (lua_rawgeti(L, count + CONNECTION, BOX) != LUA_TUSERDATA) return NULL;
  lua_replace(L, count + HELD);
  if (!is_of(L, count + HELD, BOX_META)) return NULL;
  cpostgres *it = *(cpostgres **)lua_touserdata(L, count + HELD);
  if (!it || !it->is_connected || it->quick.is_under_way) return NULL;
  if (lua_rawgeti(L, count + CONNECTION, WATCH) != LUA_TUSERDATA) return NULL;
  lua_rawgeti(L, count + CONNECTION, PREPARED);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) != LUA_TTABLE) return NULL;
  lua_replace(L, count + STATEMENT);
  lua_settop(L, count + STATEMENT);
  double time = now();
  if (time - it->used > pool->fresh && !cpostgres_is_alive(it)) return NULL;
  it->used = time;
  it->quick.pool = pool;
  return it;
}

// A method of databases: (self, text, parameters...)
static int call(lua_State *L) {
  int count = lua_gettop(L);
  call_kind kind = (call_kind)lua_tointeger(L, lua_upvalueindex(KIND));
  luaL_checkstack(L, TOP + 20, NULL);
  cpostgres *it = find(L, count);
  if (!it) return slow(L, count);
  lua_pushinteger(L, ++it->uses);
  lua_rawseti(L, count + STATEMENT, LAST_USE);
  lua_rawgeti(L, count + STATEMENT, NAME);
  int left = cpostgres_execute(L, it, lua_tostring(L, -1), (size_t)count - 2);
  // The usual call raises the error.
  if (left == PARAMETER_REFUSED) return slow(L, count);
  it->quick.is_under_way = 1;
  it->quick.is_claimed = 0;
  it->quick.kind = (int)kind;
  it->quick.text = lua_tostring(L, 2);
  it->quick.record = NOT_RECORDED;
  it->quick.changed = -1;
  it->quick.pool->under_way++;
  it->quick.pool->calls++;
  lua_toclose(L, count + HELD);
  lua_pushthread(L);
  lua_setiuservalue(L, count + HELD, TASK);
  it->quick.record = begin_record(L, count + STATEMENT, kind);
  lua_settop(L, count + HELD);
  lua_settop(L, count + TOP);
  for (int i = ROWS; i <= NAMES && (kind == QUERY || kind == ROW); i++) {
    lua_newtable(L);
    lua_replace(L, count + i);
  }
  if (left != 0) return take_over(L, count, left > 0 ? "unsent" : "lost", -1);
  // The answer cannot be there yet.
  lua_rawgeti(L, count + CONNECTION, WAIT);
  lua_rawgeti(L, count + CONNECTION, WATCH);
  lua_callk(L, 1, 0, count, go_on);
  return go_on(L, LUA_OK, count);
}

int cpostgres_new_quick(lua_State *L) {
  int kind = luaL_checkoption(L, 1, NULL, kinds);
  lua_settop(L, 6);
  lua_pushvalue(L, lua_upvalueindex(BYTES_CLASS));
  lua_pushvalue(L, lua_upvalueindex(DECODE));
  lua_pushinteger(L, kind);
  lua_rotate(L, 2, 3);
  lua_remove(L, 1);
  luaL_getmetatable(L, POOL_CLASS);
  luaL_getmetatable(L, CPOSTGRES_CLASS);
  lua_pushcclosure(L, call, BOX_META);
  // Lua can yield through the function: see blocker.c.
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, (void *)call);
  return 1;
}

// Pools ---------------------------------------------------------------------------------------------------------------

int cpostgres_new_pool(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  cpostgres_pool *pool = lua_newuserdatauv(L, sizeof *pool, 1);
  *pool = (cpostgres_pool){
      .is_on = 1,
      .is_list = lua_toboolean(L, 2),
      .has_nulls = lua_toboolean(L, 3),
      .most = luaL_checkinteger(L, 4),
      .fresh = luaL_checknumber(L, 5),
  };
  luaL_setmetatable(L, POOL_CLASS);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static cpostgres_pool *pool_at(lua_State *L) { return luaL_checkudata(L, 1, POOL_CLASS); }

// stop(): there are no quick calls any more
static int stop(lua_State *L) {
  pool_at(L)->is_on = 0;
  return 0;
}

// calls() -> the number of quick calls so far
static int calls(lua_State *L) { return lua_pushinteger(L, pool_at(L)->calls), 1; }
// has_calls() -> whether a quick call is under way
static int has_calls(lua_State *L) { return lua_pushboolean(L, pool_at(L)->under_way > 0), 1; }

// Methods of connections ----------------------------------------------------------------------------------------------

// claim() -> the coroutine that waits in a quick call on the connection, or nil. Lua has made a lease for the call, and
// gets the connection back by `on_end`.
static int claim(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  if (!it->quick.is_under_way) return 0;
  it->quick.is_claimed = 1;
  lua_getiuservalue(L, 1, TASK);
  return 1;
}

// release() ends a quick call: Lua takes it over -> the number of its record; nil if there is none
static int release(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  if (!it->quick.is_under_way) return 0;
  end_call(L, it, 1);
  if (it->quick.record == NOT_RECORDED) return 0;
  return lua_pushinteger(L, it->quick.record), 1;
}

// call_of(coroutine) -> kind and text of the quick call in which the coroutine waits; nil if there is none
static int call_of(lua_State *L) {
  cpostgres *it = *cpostgres_holder(L);
  if (!it || !it->quick.is_under_way) return 0;
  lua_getiuservalue(L, 1, TASK);
  if (!lua_rawequal(L, 2, -1)) return 0;
  lua_pushstring(L, kinds[it->quick.kind]);
  lua_pushstring(L, it->quick.text);
  return 2;
}

// used() -> when the last quick call on the connection began, in seconds of the clock
static int used(lua_State *L) { return lua_pushnumber(L, cpostgres_self(L)->used), 1; }

// use() -> the number of this use of a prepared statement
static int use(lua_State *L) { return lua_pushinteger(L, ++cpostgres_self(L)->uses), 1; }

// belongs(the connection in Lua)
static int belongs(lua_State *L) {
  lua_settop(L, 2);
  lua_setiuservalue(L, 1, OWNER);
  return 0;
}

// Runs at the end of a call, even if the call ends by an error or because its task is cancelled.
static int close_call(lua_State *L) {
  cpostgres *it = *(cpostgres **)lua_touserdata(L, 1);
  if (!it || !it->quick.is_under_way) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, TASK);
  lua_pushthread(L);
  // After the end of a call, another task may already have begun the next one.
  if (!lua_rawequal(L, 2, 3)) return 0;
  luaL_getmetafield(L, 1, "on_cancel");
  lua_getiuservalue(L, 1, OWNER);
  lua_call(L, 1, 0);
  return 0;
}

int cpostgres_on(lua_State *L) {
  luaL_getmetatable(L, CPOSTGRES_CLASS);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "on_end");
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "on_cancel");
  return 0;
}

void cpostgres_add_quick_methods(lua_State *L) {
  static const luaL_Reg methods[] = {{"claim", claim}, {"release", release}, {"call_of", call_of},    {"used", used},
                                     {"use", use},     {"belongs", belongs}, {"__close", close_call}, {NULL, NULL}};
  luaL_setfuncs(L, methods, 0);
  static const luaL_Reg pool_methods[] = {{"stop", stop}, {"calls", calls}, {"has_calls", has_calls}, {NULL, NULL}};
  luaL_newmetatable(L, POOL_CLASS);
  luaL_setfuncs(L, pool_methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
