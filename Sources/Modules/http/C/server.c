// Connections as userdata of Lua, and their server.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "connection.h"

// clang-format off
static const char *const policy_names[] = {
  "read", "write", "write_draft", "queue", "close", "start", "site", "request", "labels", "label", "handler", "encoder",
  "explain", "now", "schedule", "conclude", "linger", "refuse", "compare", "wake", "not_allowed", "exact", "before",
  "log", "server"
};
// clang-format on
static_assert(sizeof policy_names / sizeof *policy_names == OWNER, "each part of the policy has a name");

// connection:next_request(): begins requests until something else has to be done. Returns "full": nothing is read until
// unread bytes are taken; "upgraded": the connection speaks another protocol; nil at its end.
static int next_request(lua_State *L) { return http_go_on(L, http_check_self(L)); }

// Methods -------------------------------------------------------------------------------------------------------------

// Returns nil, message, code.
static int fail(lua_State *L, const char *code, const char *message) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", code, message);
  lua_pushstring(L, code);
  return 3;
}

// connection:take(request, max) -> bytes of the request's body; "" if they have not arrived, nil at its end; nil,
// message, code
static int take(lua_State *L) {
  connection *c = http_check_self(L);
  lua_Integer max = luaL_checkinteger(L, 3), max_body = c->server->max_body;
  if ((c->ending != NOT_ENDED && c->ending != GONE) || !has_request(L, c)) return lua_pushnil(L), 1;
  if (c->flags & HTTP_EXPECTS_CONTINUE) {
    c->flags &= ~HTTP_EXPECTS_CONTINUE;
    push(L, QUEUE);
    lua_getiuservalue(L, 1, STREAM);
    lua_pushliteral(L, "HTTP/1.1 100 Continue\r\n\r\n");
    lua_call(L, 2, 0);
  }
  lua_http_take(L, &c->reader, max > 0 ? (size_t)max : 0);
  if (c->is_full) http_call(L, WAKE, REQUEST);
  c->taken += (lua_Integer)lua_rawlen(L, -1);
  int is_bad = lua_isboolean(L, -1);
  if (!is_bad && c->taken <= max_body) return 1;
  c->flags &= ~HTTP_KEEPS_ALIVE;
  if (is_bad) return fail(L, "EBADMSG", "the chunks of the body are not well-formed");
  return fail(L, "EMSGSIZE", lua_pushfstring(L, "the body is longer than %I bytes", max_body));
}

static int rest(lua_State *L) { return lua_http_push_rest(L, &http_check_self(L)->reader); }

// connection:claim(request): begins its answer. Returns false if the answer has begun already, or is not possible any
// more.
static int claim(lua_State *L) {
  connection *c = http_check_self(L);
  int is_free = is_current(L, c) && !c->is_claimed;
  if (is_free) c->is_claimed = 1;
  lua_pushboolean(L, is_free);
  return 1;
}

// connection:standing(request) -> whether the request's task cannot answer it any more, and whether its answer has
// begun
static int standing(lua_State *L) {
  connection *c = http_check_self(L);
  lua_pushboolean(L, !is_current(L, c));
  lua_pushboolean(L, has_request(L, c) && c->is_claimed);
  return 2;
}

// connection:head(request, status, fields, body or its length or nil, type, is chunked) -> the bytes of a response. The
// head announces the end of the connection if the request has ended, or without a request.
static int head(lua_State *L) {
  connection *c = http_check_self(L);
  lua_settop(L, 7);
  int is_own = is_current(L, c), flags = 0;
  if (is_own) {
    // A client that waits for "100 Continue" may or may not send its body after this answer, so the connection cannot
    // continue.
    if (c->flags & HTTP_EXPECTS_CONTINUE) c->flags &= ~HTTP_KEEPS_ALIVE;
    flags = (keeps_alive(c) ? ANSWER_KEEPS_ALIVE : 0) | (c->flags & HTTP_IS_OLD ? ANSWER_IS_OLD : 0) |
            (c->flags & HTTP_IS_HEAD ? ANSWER_WITHOUT_BODY : 0) | (lua_toboolean(L, 7) ? ANSWER_IS_CHUNKED : 0) |
            (lua_tointeger(L, 3) == 101 ? ANSWER_IS_SWITCH : 0);
  }
  lua_http_push_response(L, 3, &flags, lua_upvalueindex(OUTPUT));
  if (is_own && !(flags & ANSWER_KEEPS_ALIVE)) c->flags &= ~HTTP_KEEPS_ALIVE;
  return 1;
}

// connection:last(request): makes this request the last one of the connection.
static int last(lua_State *L) {
  connection *c = http_check_self(L);
  if (is_current(L, c)) c->flags &= ~HTTP_KEEPS_ALIVE;
  return 0;
}

static int finish_request(lua_State *L) {
  connection *c = http_check_self(L);
  lua_Integer status = luaL_checkinteger(L, 3), length = luaL_checkinteger(L, 4);
  return http_finish(L, c, status, length);
}

// connection:give_up(): called when the request takes too long. Returns whether the request's answer had begun.
static int give_up(lua_State *L) {
  connection *c = http_check_self(L);
  lua_pushboolean(L, c->is_claimed);
  c->is_claimed = 1;
  if (c->ending == NOT_ENDED) c->ending = LATE;
  return 1;
}

// connection:leave(): called when the client has gone. Returns the request that was being answered, or nil; then "done"
// or "late" if its answer had ended.
static int leave(lua_State *L) {
  connection *c = http_check_self(L);
  c->is_over = 1;
  if (!c->is_active) return 0;
  c->is_active = c->is_left = 0;
  lua_getiuservalue(L, 1, REQUEST);
  if (c->ending == DONE) return lua_pushliteral(L, "done"), 2;
  int is_late = c->ending == LATE;
  c->ending = GONE;
  return is_late ? (lua_pushliteral(L, "late"), 2) : 1;
}

// connection:upgrade(socket): the connection belongs to this object from now on, and has no deadline.
static int upgrade(lua_State *L) {
  connection *c = http_check_self(L);
  lua_settop(L, 2);
  lua_setiuservalue(L, 1, SOCKET);
  c->is_upgraded = 1;
  c->flags &= ~HTTP_KEEPS_ALIVE;
  c->deadline = HUGE_VAL;
  return 0;
}

// connection:has_stood(read, written, unacknowledged) -> whether these equal those of the previous call
static int has_stood(lua_State *L) {
  connection *c = http_check_self(L);
  int is_same = 1;
  for (int i = 0; i < 3; i++) {
    lua_Integer count = lua_tointeger(L, i + 2);
    is_same &= count == c->traffic[i];
    c->traffic[i] = count;
  }
  lua_pushboolean(L, is_same);
  return 1;
}

// connection:set_deadline(seconds); 0: none
static int set_deadline(lua_State *L) {
  connection *c = http_check_self(L);
  double seconds = luaL_checknumber(L, 2);
  http_set_date(L, c, seconds > 0 ? http_now(L) + seconds : HUGE_VAL);
  return 0;
}

static int close_connection(lua_State *L) {
  http_end(L, http_check_self(L));
  return 0;
}

// connection:state() -> the request that is being answered, or false; unread bytes; whether the answer is sent, and the
// rest of the body is on its way
static int state(lua_State *L) {
  connection *c = http_check_self(L);
  if (c->is_active) lua_getiuservalue(L, 1, REQUEST);
  else lua_pushboolean(L, 0);
  lua_pushinteger(L, (lua_Integer)http_unread(&c->reader));
  lua_pushboolean(L, c->is_left);
  return 3;
}

// connection:numbers() -> the deadline; when the request began; the numbers of its task, nil if it has not waited
static int numbers(lua_State *L) {
  connection *c = http_check_self(L);
  lua_pushnumber(L, c->deadline);
  lua_pushnumber(L, c->began);
  if (!c->task) return 2;
  lua_pushinteger(L, c->task);
  lua_pushinteger(L, c->record);
  return 4;
}

// Returns a method, or one of the fields `stream`, `socket` and `server`, which are read only.
static int get(lua_State *L) {
  http_check_self(L);
  lua_settop(L, 2);
  if (lua_rawgeti(L, lua_upvalueindex(METATABLE), 1) != LUA_TTABLE) return 0;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 3) != LUA_TNIL || lua_type(L, 2) != LUA_TSTRING) return 1;
  const char *name = lua_tostring(L, 2);
  int field = strcmp(name, "stream") == 0 ? STREAM : strcmp(name, "socket") == 0 ? SOCKET : 0;
  if (field) lua_getiuservalue(L, 1, field);
  else if (strcmp(name, "server") == 0) push(L, OWNER);
  return 1;
}

// Scripts can call the finalizer through debug functions, even twice: it checks its argument.
static int collect(lua_State *L) {
  http_free_reader(&http_check_self(L)->reader);
  return 0;
}

// The server ----------------------------------------------------------------------------------------------------------

// connect(stream) -> a connection
static int make_connection(lua_State *L) {
  luaL_checktype(L, 1, LUA_TUSERDATA);
  lua_settop(L, 1);
  connection *c = lua_newuserdatauv(L, sizeof *c, SOCKET);
  *c = (connection){.deadline = HUGE_VAL, .server = lua_touserdata(L, lua_upvalueindex(SERVER))};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, STREAM);
  lua_pushvalue(L, lua_upvalueindex(METATABLE));
  lua_setmetatable(L, 2);
  lua_replace(L, 1);
  c->began = http_now(L);
  return 1;
}

static server *server_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(SERVER)); }

// counts() -> requests, and bytes of answers, since the start
static int counts(lua_State *L) {
  lua_pushinteger(L, server_of(L)->requests);
  lua_pushinteger(L, server_of(L)->bytes);
  return 2;
}

// stop(): makes each connection end after its present request.
static int stop(lua_State *L) { return server_of(L)->is_stopping = 1, 0; }

// sweep_at(date): sets when the server looks for expired connections the next time.
static int sweep_at(lua_State *L) { return server_of(L)->next_sweep = luaL_checknumber(L, 1), 0; }

static lua_Number field(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  lua_Number value = luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return value;
}

// A limit of 0 seconds is none.
static double limit(lua_State *L, const char *name) {
  double seconds = field(L, name);
  return seconds > 0 ? seconds : HUGE_VAL;
}

// Adds functions with the four upvalues on top of the stack to the table at `table`.
static void add(lua_State *L, int table, const luaL_Reg *functions) {
  for (; functions->name; functions++) {
    for (int i = 0; i < OUTPUT; i++) lua_pushvalue(L, -OUTPUT);
    lua_pushcclosure(L, functions->func, OUTPUT);
    lua_setfield(L, table, functions->name);
  }
}

int lua_http_server(lua_State *L) {
  // clang-format off
  static const luaL_Reg methods[] = {
    {"next_request", next_request}, {"take", take}, {"rest", rest}, {"claim", claim}, {"standing", standing},
    {"head", head}, {"last", last}, {"finish", finish_request}, {"give_up", give_up}, {"leave", leave},
    {"upgrade", upgrade}, {"has_stood", has_stood}, {"set_deadline", set_deadline}, {"close", close_connection},
    {"state", state}, {"numbers", numbers}, {NULL, NULL}};
  static const luaL_Reg special[] = {{"__index", get}, {"__gc", collect}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
    {"connect", make_connection}, {"counts", counts}, {"stop", stop}, {"sweep_at", sweep_at}, {NULL, NULL}};
  // clang-format on
  enum { SETTINGS = 1, GIVEN, RESULT, CLASS_METHODS, FIRST };
  luaL_checktype(L, SETTINGS, LUA_TTABLE);
  luaL_checktype(L, GIVEN, LUA_TTABLE);
  lua_settop(L, GIVEN);
  lua_newtable(L);
  lua_newtable(L);
  lua_Number max_fields = field(L, "max_fields"), max_header = field(L, "max_header"), max_body = field(L, "max_body");
  server *server = lua_newuserdatauv(L, sizeof *server, 0);
  *server = (struct server){.head = limit(L, "header_timeout"),
                            .patience = limit(L, "patience"),
                            .idle = limit(L, "idle_timeout"),
                            .next_sweep = HUGE_VAL,
                            .max_header = max_header < 0x1p62 ? (size_t)max_header : SIZE_MAX / 2,
                            .max_body = max_body < 0x1p62 ? (lua_Integer)max_body : LLONG_MAX,
                            .max_fields = max_fields < INT_MAX ? (int)max_fields : INT_MAX};
  lua_getfield(L, SETTINGS, "log"), server->is_logged = lua_toboolean(L, -1);
  lua_getfield(L, SETTINGS, "compress"), server->is_compressing = lua_toboolean(L, -1);
  lua_settop(L, FIRST);
  // The elements are added in order, so that all are in the table's array part.
  lua_createtable(L, ENCODE, 0);
  for (int i = 0; i < OWNER; i++) {
    lua_getfield(L, GIVEN, policy_names[i]);
    lua_rawseti(L, FIRST + 1, i + 1);
  }
  lua_createtable(L, 0, 5);
  lua_pushvalue(L, lua_upvalueindex(1));
  add(L, CLASS_METHODS, methods);
  add(L, RESULT, functions);
  add(L, FIRST + 2, special);
  for (int i = 0; i < OUTPUT; i++) lua_pushvalue(L, -OUTPUT);
  lua_pushcclosure(L, http_run, OUTPUT);
  lua_rawseti(L, FIRST + 1, RUN);
  lua_pushvalue(L, CLASS_METHODS);
  lua_rawseti(L, FIRST + 2, 1);
  lua_pushliteral(L, "http.connection");
  lua_setfield(L, FIRST + 2, "__name");
  lua_settop(L, RESULT);
  return 1;
}
