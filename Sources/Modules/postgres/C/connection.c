// Connections for Lua: statements and answers. These functions raise errors in Lua's way, so that only
// Lua may call them.
#define _GNU_SOURCE
#include <lauxlib.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "CJSON.h"
#include "private.h"

cpostgres *cpostgres_hold(lua_State *L, int index) {
  cpostgres **at = luaL_testudata(L, index, CPOSTGRES_CLASS);
  if (!at || !*at) return NULL;
  (*at)->holders++;
  return *at;
}

// Making and closing --------------------------------------------------------------------------------------------------

// make(list of names, list of values, seconds) -> connection, which is not connected yet
static int make(lua_State *L) {
  lua_Integer count = luaL_len(L, 1);
  double seconds = luaL_checknumber(L, 3);
  cpostgres **at = lua_newuserdatauv(L, sizeof *at, CONNECTION_VALUES);
  *at = NULL;
  luaL_setmetatable(L, CPOSTGRES_CLASS);
  cpostgres *it = *at = calloc(1, sizeof *it);
  if (!it) return luaL_error(L, "not enough memory");
  it->holders = 1;
  it->seconds = seconds;
  it->names = calloc((size_t)count + 1, sizeof *it->names);
  it->values = calloc((size_t)count + 1, sizeof *it->values);
  for (lua_Integer i = 1; i <= count && it->names && it->values; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    it->names[i - 1] = strdup(luaL_checkstring(L, -2));
    it->values[i - 1] = strdup(luaL_checkstring(L, -1));
    lua_pop(L, 2);
  }
  return 1;
}

static int close_it(lua_State *L) {
  cpostgres **at = cpostgres_holder(L), *it = *at;
  *at = NULL;
  if (!it) return 0;
  it->is_given_up = 1;
  if (it->is_connected) {
    if (it->result) pq.PQclear(it->result);
    pq.PQfinish(it->connection);
    it->result = NULL;
    it->connection = NULL;
  }
  cpostgres_release(it);
  return 0;
}

// failure() -> the reason why the connection could not be made; nil if it was made
static int failure(lua_State *L) {
  cpostgres *it = *cpostgres_holder(L);
  if (it && it->is_connected) lua_pushnil(L);
  else lua_pushstring(L, it && it->failure ? it->failure : "out of memory");
  return 1;
}

static int descriptor(lua_State *L) { return lua_pushinteger(L, pq.PQsocket(cpostgres_self(L)->connection)), 1; }
static int process(lua_State *L) { return lua_pushinteger(L, pq.PQbackendPID(cpostgres_self(L)->connection)), 1; }
static int message(lua_State *L) { return lua_pushstring(L, pq.PQerrorMessage(cpostgres_self(L)->connection)), 1; }
static int parameter(lua_State *L) {
  return lua_pushstring(L, pq.PQparameterStatus(cpostgres_self(L)->connection, luaL_checkstring(L, 2))), 1;
}

int cpostgres_is_readable(cpostgres *it) {
  struct pollfd file = {pq.PQsocket(it->connection), POLLIN, 0};
  return poll(&file, 1, 0) > 0;
}

void cpostgres_drop_notifications(cpostgres *it) {
  PGnotify *one;
  while (!it->keeps_notifications && (one = pq.PQnotifies(it->connection))) pq.PQfreemem(one);
}

static int stands_now(const cpostgres *it) { return !it->is_ending && pq.PQstatus(it->connection) == CONNECTION_OK; }

int cpostgres_is_alive(cpostgres *it) {
  for (int i = 0; i < 20 && !it->is_ending && cpostgres_is_readable(it); i++) {
    if (!pq.PQconsumeInput(it->connection)) return 0;
    pq.PQisBusy(it->connection);
  }
  cpostgres_drop_notifications(it);
  return stands_now(it);
}

// is_alive() -> whether the connection, which must be idle, is still open
static int is_alive(lua_State *L) { return lua_pushboolean(L, cpostgres_is_alive(cpostgres_self(L))), 1; }

// stands() -> false if the connection is known to be lost
static int stands(lua_State *L) { return lua_pushboolean(L, stands_now(cpostgres_self(L))), 1; }

// shut() ends the connection; a task that waits for it continues
static int shut(lua_State *L) { return shutdown(pq.PQsocket(cpostgres_self(L)->connection), SHUT_RDWR), 0; }

// is_idle() -> whether no transaction is open
static int is_idle(lua_State *L) {
  lua_pushboolean(L, pq.PQtransactionStatus(cpostgres_self(L)->connection) == PQTRANS_IDLE);
  return 1;
}

// transaction() -> "idle", "active", "inside", "failed" or "unknown"
static int transaction(lua_State *L) {
  static const char *const names[] = {"idle", "active", "inside", "failed", "unknown"};
  lua_pushstring(L, names[pq.PQtransactionStatus(cpostgres_self(L)->connection)]);
  return 1;
}

// Sending -------------------------------------------------------------------------------------------------------------

typedef struct {
  const char *value;
  Oid type;
  int length, format;
  char number[JSON_NUMBER_SIZE + 1];
} parameter_slot;

// Describes the value at the top of the stack, which the table of values keeps. Returns 0 if no column can hold it.
static int describe(lua_State *L, parameter_slot *slot) {
  size_t length = 0;
  switch (lua_type(L, -1)) {
    case LUA_TNIL: return 1;
    case LUA_TLIGHTUSERDATA: return lua_touserdata(L, -1) == NULL;
    case LUA_TBOOLEAN: slot->value = lua_toboolean(L, -1) ? "true" : "false"; return 1;
    case LUA_TSTRING: slot->value = lua_tolstring(L, -1, &length); return !memchr(slot->value, 0, length);
    case LUA_TNUMBER:
      slot->value = slot->number;
      if (lua_isinteger(L, -1)) slot->number[json_write_integer(slot->number, lua_tointeger(L, -1))] = 0;
      else if (isnan(lua_tonumber(L, -1))) slot->value = "NaN";
      else if (isinf(lua_tonumber(L, -1))) slot->value = lua_tonumber(L, -1) < 0 ? "-Infinity" : "Infinity";
      else slot->number[json_write_double(slot->number, lua_tonumber(L, -1))] = 0;
      return 1;
    case LUA_TTABLE:
      if (!lua_getmetatable(L, -1)) return 0;
      int is_bytes = lua_rawequal(L, -1, lua_upvalueindex(BYTES_CLASS));
      lua_pop(L, 1);
      if (!is_bytes) return 0;
      lua_rawgeti(L, -1, 1);
      slot->value = lua_tolstring(L, -1, &length);
      lua_pop(L, 1);
      slot->length = (int)length;
      slot->format = 1;
      slot->type = 17;
      return slot->value != NULL;
    default: return 0;
  }
}

enum { SLOTS = 16 };

// Sends a statement; with a name, the prepared statement of that name. `text` is NULL if the values are on the stack,
// from index 3 on, instead of in the table at index 3. Returns what send_query returns.
static int send_with(lua_State *L, cpostgres *it, const char *text, const char *name, size_t count,
                     parameter_slot *slots, const char **values, int *lengths, int *formats, Oid *types) {
  int has_types = 0;
  for (size_t i = 0; i < count; i++) {
    if (text) lua_rawgeti(L, 3, (lua_Integer)i + 1);
    else lua_pushvalue(L, 3 + (int)i);
    slots[i] = (parameter_slot){0};
    if (!describe(L, &slots[i])) {
      lua_pushnil(L);
      lua_pushinteger(L, (lua_Integer)i + 1);
      return 2;
    }
    lua_pop(L, 1);
    values[i] = slots[i].value;
    lengths[i] = slots[i].length;
    formats[i] = slots[i].format;
    types[i] = slots[i].type;
    if (types[i]) has_types = 1;
  }
  int done = name ? pq.PQsendQueryPrepared(it->connection, name, (int)count, values, lengths, formats, 0)
                  : pq.PQsendQueryParams(it->connection, text, (int)count, has_types ? types : NULL, values, lengths,
                                         formats, 0);
  it->rows = it->bytes = it->has_problem = 0;
  lua_pushboolean(L, done);
  return 1;
}

// send(text, values, count, name) sends a statement; with a name, the prepared statement of that name. -> true; false
// if the connection is lost; or nil and the number of a parameter that no column can hold
static int send_query(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  const char *text = luaL_checkstring(L, 2), *name = luaL_optstring(L, 5, NULL);
  size_t count = (size_t)luaL_checkinteger(L, 4);
  lua_settop(L, 5);
  if (count <= SLOTS) {
    parameter_slot slots[SLOTS];
    const char *values[SLOTS];
    int lengths[SLOTS], formats[SLOTS];
    Oid types[SLOTS];
    return send_with(L, it, text, name, count, slots, values, lengths, formats, types);
  }
  parameter_slot *slots = lua_newuserdatauv(L, count * sizeof *slots, 0);
  const char **values = lua_newuserdatauv(L, count * sizeof *values, 0);
  int *numbers = lua_newuserdatauv(L, count * 2 * sizeof *numbers, 0);
  Oid *types = lua_newuserdatauv(L, count * sizeof *types, 0);
  return send_with(L, it, text, name, count, slots, values, numbers, numbers + count, types);
}

// check(values, count) -> nil, or the number of a parameter that no column can hold
static int check(lua_State *L) {
  lua_Integer count = luaL_checkinteger(L, 2);
  for (lua_Integer i = 1; i <= count; i++) {
    parameter_slot slot = {0};
    lua_rawgeti(L, 1, i);
    if (!describe(L, &slot)) return lua_pushinteger(L, i), 1;
    lua_pop(L, 1);
  }
  return 0;
}

static int answer_to(lua_State *L, cpostgres *it, int done) {
  it->rows = it->bytes = it->has_problem = 0;
  lua_pushboolean(L, done);
  return 1;
}

static int simple(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  return answer_to(L, it, pq.PQsendQuery(it->connection, luaL_checkstring(L, 2)));
}

static int prepare(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  return answer_to(L, it, pq.PQsendPrepare(it->connection, luaL_checkstring(L, 2), luaL_checkstring(L, 3), 0, NULL));
}

// pipeline(whether to begin or to end)
static int pipeline(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  int done = lua_toboolean(L, 2) ? pq.PQenterPipelineMode(it->connection) : pq.PQexitPipelineMode(it->connection);
  return answer_to(L, it, done);
}

static int sync_pipeline(lua_State *L) {
  return lua_pushboolean(L, pq.PQpipelineSync(cpostgres_self(L)->connection)), 1;
}
// ask() makes the server send the answers of a pipeline so far
static int ask(lua_State *L) { return lua_pushboolean(L, pq.PQsendFlushRequest(cpostgres_self(L)->connection)), 1; }

// flush() -> 0 if all was sent, 1 if there is more, -1 if the connection is lost; also reads available input
static int flush(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  int left = pq.PQflush(it->connection);
  if (left == 1 && !pq.PQconsumeInput(it->connection)) left = -1;
  lua_pushinteger(L, left);
  return 1;
}

// start() makes rows of the last statement arrive one by one instead of all at the end, and calls flush; returns the
// result of flush
static int start(lua_State *L) {
  pq.PQsetSingleRowMode(cpostgres_self(L)->connection);
  return flush(L);
}

int cpostgres_execute(lua_State *L, cpostgres *it, const char *name, size_t count) {
  if (count > SLOTS) return PARAMETER_REFUSED;
  parameter_slot slots[SLOTS];
  const char *values[SLOTS];
  int lengths[SLOTS], formats[SLOTS];
  Oid types[SLOTS];
  int top = lua_gettop(L);
  int is_refused = send_with(L, it, NULL, name, count, slots, values, lengths, formats, types) > 1;
  int is_sent = !is_refused && lua_toboolean(L, -1);
  lua_settop(L, top);
  if (is_refused) return PARAMETER_REFUSED;
  if (!is_sent) return -1;
  pq.PQsetSingleRowMode(it->connection);
  return pq.PQflush(it->connection);
}

// notifications() -> list: the channel and the text of each notification in turn. Before the first call of this
// function, notifications are dropped; afterwards libpq keeps them for the next call.
static int notifications(lua_State *L) {
  cpostgres *it = cpostgres_self(L);
  it->keeps_notifications = 1;
  lua_newtable(L);
  lua_Integer count = 0;
  for (PGnotify *one; (one = pq.PQnotifies(it->connection)); pq.PQfreemem(one)) {
    lua_pushstring(L, one->relname);
    lua_rawseti(L, -2, ++count);
    lua_pushstring(L, one->extra);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

const luaL_Reg cpostgres_functions[] = {{"make", make}, {"check", check}, {NULL, NULL}};
const luaL_Reg cpostgres_methods[] = {{"close", close_it},
                                      {"__gc", close_it},
                                      {"failure", failure},
                                      {"descriptor", descriptor},
                                      {"process", process},
                                      {"message", message},
                                      {"parameter", parameter},
                                      {"is_alive", is_alive},
                                      {"stands", stands},
                                      {"shut", shut},
                                      {"is_idle", is_idle},
                                      {"transaction", transaction},
                                      {"send", send_query},
                                      {"simple", simple},
                                      {"prepare", prepare},
                                      {"start", start},
                                      {"pipeline", pipeline},
                                      {"sync", sync_pipeline},
                                      {"ask", ask},
                                      {"flush", flush},
                                      {"notifications", notifications},
                                      {NULL, NULL}};
