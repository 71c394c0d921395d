// The task of a request: calls the handler, and writes answers that are a text or JSON.
#include <draft.h>
#include <string.h>

#include "connection.h"

// The stack of a request's task: connection, request, the function for errors, the handler's result.
enum { REQUEST_TABLE = 2, ON_ERROR, ANSWER };

static int give_first(lua_State *L, int status, lua_KContext context) {
  return (void)L, (void)status, (void)context, 1;
}

// Lua handles the less common results of handlers.
static int conclude(lua_State *L, int is_good) {
  push(L, CONCLUDE);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, REQUEST_TABLE);
  lua_pushboolean(L, is_good);
  lua_pushvalue(L, ANSWER);
  lua_callk(L, 4, 1, 0, give_first);
  return 1;
}

enum { LENGTH_SHIFT = 12 };

// `context` has the status and the length of the answer.
static int written(lua_State *L, int status, lua_KContext context) {
  (void)status;
  return http_finish(L, self_of(L), context & ((1 << LENGTH_SHIFT) - 1), context >> LENGTH_SHIFT);
}

// Pushes the function that encodes JSON, which the first answer with a value loads.
static void push_encode(lua_State *L) {
  if (push(L, ENCODE) == LUA_TFUNCTION) return;
  lua_pop(L, 1);
  push(L, ENCODER);
  lua_call(L, 0, 1);
  luaL_checktype(L, -1, LUA_TFUNCTION);
  lua_pushvalue(L, -1);
  lua_rawseti(L, lua_upvalueindex(POLICY), ENCODE);
}

// Returns the status of an answer whose body is a text; pushes the text, and sets `type` to its content type. Returns 0
// for any other answer; -1 if JSON cannot represent the value, with the error in place of the answer.
static int text_of(lua_State *L, const char **type) {
  static const char text[] = "text/plain; charset=utf-8", json[] = "application/json";
  *type = text;
  if (lua_type(L, ANSWER) == LUA_TSTRING) return 200;
  if (lua_type(L, ANSWER) != LUA_TTABLE || lua_getmetatable(L, ANSWER)) return 0;
  lua_Integer status = 200;
  int value = 0;
  lua_pushnil(L);
  while (lua_next(L, ANSWER)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(name, "status") == 0 && lua_isinteger(L, -1)) {
      status = lua_tointeger(L, -1);
      lua_pop(L, 1);
    } else if (!value && ((strcmp(name, "body") == 0 && lua_type(L, -1) == LUA_TSTRING) || strcmp(name, "json") == 0)) {
      if (*name == 'j') *type = json;
      // The value goes below the key, which has to stay on top for lua_next.
      value = ANSWER + 1;
      lua_insert(L, value);
    } else {
      return 0;
    }
  }
  if (!value || status < 200 || status > 599 || status == 204 || status == 304) return 0;
  if (*type == json) {
    push_encode(L);
    lua_insert(L, value);
    if (lua_pcall(L, 1, 1, ON_ERROR) != LUA_OK) return lua_replace(L, ANSWER), -1;
  }
  return (int)status;
}

// Called when the handler has returned or failed.
static int handled(lua_State *L, int status, lua_KContext context) {
  (void)context;
  connection *c = self_of(L);
  if (status != LUA_OK && status != LUA_YIELD) return conclude(L, 0);
  if (!is_current(L, c) || c->is_claimed || c->server->is_compressing ||
      c->flags & (HTTP_IS_HEAD | HTTP_EXPECTS_CONTINUE | HTTP_HAS_BODY))
    return conclude(L, 1);
  const char *type;
  int code = text_of(L, &type);
  if (code <= 0) return conclude(L, code == 0);
  int flags = keeps_alive(c) ? c->flags : c->flags & ~HTTP_KEEPS_ALIVE;
  size_t length = lua_rawlen(L, -1);
  // The stream copies the draft before the task can wait. No value of Lua contains the draft's address.
  stream_draft draft = streams_draft();
  size_t size = lua_http_text_answer(L, code, type, flags, draft.bytes, STREAM_DRAFT_SIZE);
  *draft.length = size;
  c->flags = flags;
  c->is_claimed = 1;
  push(L, size ? WRITE_DRAFT : WRITE);
  lua_getiuservalue(L, 1, STREAM);
  if (!size) lua_rotate(L, -3, 2);
  lua_KContext known = code | (lua_KContext)length << LENGTH_SHIFT;
  lua_callk(L, size ? 1 : 2, 0, known, written);
  return written(L, LUA_OK, known);
}

// Replaces the method at the index `method`, and the path after it, by the function of a route without parameters.
// Returns 0 if there is no such route.
static int find_route(lua_State *L, int method) {
  int top = lua_gettop(L), is_found = 0;
  if (push(L, EXACT) == LUA_TTABLE && push(L, BEFORE) == LUA_TTABLE && lua_rawlen(L, -1) == 0) {
    lua_pushvalue(L, method + 1);
    if (lua_rawget(L, top + 1) == LUA_TTABLE) {
      lua_pushvalue(L, method);
      is_found = lua_rawget(L, -2) == LUA_TTABLE;
    }
  }
  if (is_found) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, REQUEST_TABLE, OWN_ROUTE);
    lua_getfield(L, -1, "fn");
    lua_replace(L, method);
  }
  return lua_settop(L, top), is_found;
}

int http_run(lua_State *L) {
  lua_settop(L, 4);
  connection *c = http_check_self(L);
  luaL_checktype(L, REQUEST_TABLE, LUA_TTABLE);
  push(L, EXPLAIN);
  lua_insert(L, ON_ERROR);
  int is_refused = c->flags & HTTP_IS_REFUSED;
  if (is_refused || !find_route(L, ANSWER)) {
    push(L, is_refused ? NOT_ALLOWED : HANDLER);
    lua_replace(L, ANSWER);
  }
  lua_pushvalue(L, REQUEST_TABLE);
  lua_replace(L, ANSWER + 1);
  return handled(L, lua_pcallk(L, 1, 1, ON_ERROR, 0, handled), 0);
}
