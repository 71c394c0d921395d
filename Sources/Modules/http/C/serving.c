// The fast path of a server: reads a request, calls its handler in a task, and writes the result. Lua does the rest of
// each step, for requests that need more: see server/connection.lua.
#include <draft.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "private.h"

typedef struct serving {
  double patience, idle;  // limits for a request, and for the silence after one
  double next_sweep;      // when expired connections are looked for
  size_t max_header;
  int max_fields;
  const void *answered;  // the last request that has left nothing to do
  lua_Integer requests, bytes;
  int is_stopping, is_logged, is_compressing;
} serving;

// Lua's functions and values, in the table that is the second upvalue of each function. The first is the serving.
enum {
  READ = 1,
  WRITE,
  START,
  SITE,
  RUN,
  REQUEST,
  LABELS,
  LABEL,
  COMPLETED,
  SET_DATE,
  CONCLUDE,
  DONE,
  HANDLER,
  EXPLAIN,
  ENCODE,
  NOW,
  EXACT,
  BEFORE,
  WRITE_DRAFT,
  NOT_ALLOWED
};
static const char *const part_names[] = {"read",        "write",       "start",     "site",     "run",      "request",
                                         "labels",      "label",       "completed", "set_date", "conclude", "done",
                                         "handler",     "explain",     "encode",    "now",      "exact",    "before",
                                         "write_draft", "not_allowed", NULL};

static serving *serving_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }
static int push_part(lua_State *L, int number) { return lua_rawgeti(L, lua_upvalueindex(2), number); }

// Requests ------------------------------------------------------------------------------------------------------------

enum { ANSWERED, GOES_ON_IN_LUA };

// Sets a connection's deadline, in seconds of the loop's clock.
static void set_deadline(lua_State *L, int connection, double date) {
  lua_pushnumber(L, date);
  lua_setfield(L, connection, "deadline");
  if (date >= serving_of(L)->next_sweep) return;
  push_part(L, SET_DATE);
  lua_pushvalue(L, connection);
  lua_pushnumber(L, date);
  lua_call(L, 2, 0);
}

// Makes the table of a request, whose method and path are on top, and puts it below them. The table has room for few
// fields: others are computed when a script uses them. Lua adds `response`: true while an answer is being made, "sent",
// or an object; and `ended`: "done", "late", "gone".
static void make_request(lua_State *L, int connection, int bytes, size_t position, int flags) {
  lua_createtable(L, OWN_COUNT, 4);
  lua_pushvalue(L, connection);
  lua_rawseti(L, -2, OWN_CONNECTION);
  lua_pushinteger(L, flags);
  lua_rawseti(L, -2, OWN_FLAGS);
  lua_pushvalue(L, bytes);
  lua_rawseti(L, -2, OWN_HEAD);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "method");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "path");
  if (position > 0) {
    lua_pushinteger(L, (lua_Integer)position + 1);
    lua_setfield(L, -2, "position");
  }
  push_part(L, REQUEST);
  lua_setmetatable(L, -2);
  lua_insert(L, -3);
}

// Lua checks and keeps everything except method and path. Returns whether the request may be answered.
static int complete(lua_State *L, int connection, int request, const http_head *head, http_span query) {
  push_part(L, COMPLETED);
  lua_pushvalue(L, connection);
  lua_pushvalue(L, request);
  if (head->is_chunked) lua_pushinteger(L, -2);
  else if (head->content_length >= 0) lua_pushinteger(L, head->content_length);
  else lua_pushnil(L);
  lua_pushlstring(L, head->target.start, head->target.length);
  lua_pushlstring(L, query.start, query.length);
  lua_call(L, 5, 1);
  int is_good = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is_good;
}

// Pushes the label of a request, whose method and path are at `method` and after it.
static void push_label(lua_State *L, int method) {
  push_part(L, LABELS);
  lua_pushvalue(L, method);
  if (lua_rawget(L, -2) == LUA_TTABLE) {
    lua_pushvalue(L, method + 1);
    if (lua_rawget(L, -2) == LUA_TNUMBER) {
      lua_replace(L, -3);
      lua_pop(L, 1);
      return;
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  push_part(L, LABEL);
  lua_pushvalue(L, method);
  lua_pushvalue(L, method + 1);
  lua_call(L, 2, 1);
}

// Starts a request whose head is complete: its bytes are at the index `bytes`, the head at `position`. The bytes after
// it have become the connection's buffer. Leaves the stack as it was.
static int launch(lua_State *L, int connection, int bytes, size_t position, const http_head *head) {
  serving *serving = serving_of(L);
  int top = lua_gettop(L), request = top + 1, method = top + 2, flags;
  http_span query;
  int is_more = lua_http_push_request(L, head, &flags, &query);
  make_request(L, connection, bytes, position, flags);
  if (is_more && !complete(L, connection, request, head, query)) return lua_settop(L, top), GOES_ON_IN_LUA;
  lua_pushvalue(L, request);
  lua_setfield(L, connection, "request");
  serving->requests++;
  if (serving->is_logged) {
    push_part(L, NOW);
    lua_call(L, 0, 1);
    lua_setfield(L, connection, "began");
  }
  serving->answered = NULL;
  push_part(L, START);
  push_part(L, SITE);
  push_label(L, method);
  push_part(L, RUN);
  lua_pushvalue(L, connection);
  lua_pushvalue(L, request);
  lua_pushinteger(L, flags);
  lua_pushvalue(L, method);
  lua_pushvalue(L, method + 1);
  lua_call(L, 8, 3);
  double now = lua_tonumber(L, -3);
  int outcome = serving->answered == lua_topointer(L, request) ? ANSWERED : GOES_ON_IN_LUA;
  if (lua_isnil(L, -2)) {
    set_deadline(L, connection, now + serving->idle);
  } else {
    lua_setfield(L, connection, "record");
    lua_setfield(L, connection, "task");
    lua_setfield(L, connection, "began");
    // A WebSocket has no deadline.
    if (lua_getfield(L, connection, "socket") == LUA_TNIL) set_deadline(L, connection, now + serving->patience);
  }
  lua_settop(L, top);
  return outcome;
}

static int quick_again(lua_State *L, int status, lua_KContext context);

// Receives connection, stream, bytes, and answers a single request. Returns the result for Lua, or -1 if there is none
// yet.
static int arrived(lua_State *L) {
  size_t length;
  const char *bytes = lua_tolstring(L, 3, &length);
  if (!bytes) return lua_pushnil(L), 1;
  http_head head;
  serving *serving = serving_of(L);
  if (http_read_head(&head, bytes, length, 0, serving->max_header, serving->max_fields) <= 0) return 1;
  int is_all = head.length >= length;
  if (!is_all) {
    lua_pushvalue(L, 3);
    lua_setfield(L, 1, "buffer");
    lua_pushinteger(L, (lua_Integer)head.length + 1);
    lua_setfield(L, 1, "position");
  }
  if (launch(L, 1, 3, 0, &head) == ANSWERED && is_all) return -1;
  return lua_pushboolean(L, 1), 1;
}

// quick(connection, stream), if the connection is idle and its buffer empty: reads, and answers requests that need no
// Lua. Returns unread bytes; true if they were taken but there may be more to do; nil at the end.
static int quick(lua_State *L) {
  while (1) {
    lua_settop(L, 2);
    push_part(L, READ);
    lua_pushvalue(L, 2);
    lua_pushinteger(L, 65536);
    lua_callk(L, 2, 1, 0, quick_again);
    int count = arrived(L);
    if (count >= 0) return count;
  }
}

static int quick_again(lua_State *L, int status, lua_KContext context) {
  int count = ((void)status, (void)context, arrived(L));
  return count >= 0 ? count : quick(L);
}

// take(connection): starts the request at the beginning of the connection's buffer. Returns true; nil if it is
// incomplete; false, status, problem if it is bad.
static int take(lua_State *L) {
  lua_settop(L, 1);
  lua_getfield(L, 1, "buffer");
  lua_getfield(L, 1, "position");
  size_t length, position = (size_t)lua_tointeger(L, 3) - 1;
  const char *bytes = lua_tolstring(L, 2, &length);
  if (!bytes || position > length) return 0;
  http_head head;
  serving *serving = serving_of(L);
  int found = http_read_head(&head, bytes + position, length - position, 0, serving->max_header, serving->max_fields);
  if (found == 0) return 0;
  if (found < 0) return lua_http_refuse(L, head.status, head.problem);
  size_t following = position + head.length;
  if (following >= length) lua_pushliteral(L, ""), lua_setfield(L, 1, "buffer");
  lua_pushinteger(L, following >= length ? 1 : (lua_Integer)following + 1);
  lua_setfield(L, 1, "position");
  launch(L, 1, 2, position, &head);
  return lua_pushboolean(L, 1), 1;
}

// Answers -------------------------------------------------------------------------------------------------------------

// The stack of the request's task: connection, request, flags, the function for errors, the handler's result.
enum { CONNECTION = 1, REQUEST_TABLE, FLAGS, HANDLER_OF_ERRORS, ANSWER };

static int give_first(lua_State *L, int status, lua_KContext context) {
  return (void)L, (void)status, (void)context, 1;
}

// Lua handles the results that few handlers return.
static int conclude(lua_State *L, int is_good) {
  push_part(L, CONCLUDE);
  lua_pushvalue(L, CONNECTION);
  lua_pushvalue(L, REQUEST_TABLE);
  lua_pushboolean(L, is_good);
  lua_pushvalue(L, ANSWER);
  lua_callk(L, 4, 1, 0, give_first);
  return 1;
}

static int has(lua_State *L, int upvalue) {
  lua_pushvalue(L, lua_upvalueindex(upvalue));
  int type = lua_rawget(L, REQUEST_TABLE);
  lua_pop(L, 1);
  return type != LUA_TNIL;
}

// Called when the answer has been written. `context` has its status, whether the task has waited, whether the
// connection continues, and the length.
enum { WAITED = 1 << 10, GOES_ON = 1 << 11, LENGTH_SHIFT = 12 };

static int written(lua_State *L, int status, lua_KContext context) {
  serving *serving = serving_of(L);
  lua_Integer length = context >> LENGTH_SHIFT;
  if (status == LUA_YIELD || context & WAITED || !(context & GOES_ON) || serving->is_logged) {
    push_part(L, DONE);
    lua_pushvalue(L, CONNECTION);
    lua_pushvalue(L, REQUEST_TABLE);
    lua_pushinteger(L, context & (WAITED - 1));
    lua_pushinteger(L, length);
    lua_callk(L, 4, 1, 0, give_first);
    return 1;
  }
  serving->bytes += length;
  serving->answered = lua_topointer(L, REQUEST_TABLE);
  lua_pushboolean(L, 0);
  lua_setfield(L, CONNECTION, "request");
  lua_pushinteger(L, context & (WAITED - 1));
  return 1;
}

// Returns the status of an answer with a text as body, and pushes the text; sets its type. Returns 0 for any other
// answer; -1 if JSON cannot represent the value, with the error in place of the answer.
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
      // Below the key, which has to stay on top for lua_next.
      value = ANSWER + 1;
      lua_insert(L, value);
    } else {
      return 0;
    }
  }
  if (!value || status < 200 || status > 599 || status == 204 || status == 304) return 0;
  if (*type == json) {
    if (push_part(L, ENCODE) != LUA_TFUNCTION) return 0;
    lua_insert(L, value);
    if (lua_pcall(L, 1, 1, HANDLER_OF_ERRORS) != LUA_OK) return lua_replace(L, ANSWER), -1;
  }
  return (int)status;
}

// Called when the handler has returned or failed.
static int handled(lua_State *L, int status, lua_KContext context) {
  (void)context;
  enum { RESPONSE = 3, ENDED, KEEPS_ALIVE };
  int waited = status == LUA_YIELD;
  if (status != LUA_OK && status != LUA_YIELD) return conclude(L, 0);
  lua_Integer flags = lua_tointeger(L, FLAGS);
  if (flags & (HTTP_IS_HEAD | HTTP_EXPECTS_CONTINUE | HTTP_HAS_BODY)) return conclude(L, 1);
  if (has(L, RESPONSE) || has(L, ENDED) || has(L, KEEPS_ALIVE)) return conclude(L, 1);
  if (serving_of(L)->is_compressing) return conclude(L, 1);
  const char *type;
  int code = text_of(L, &type);
  if (code <= 0) return conclude(L, code == 0);
  int goes_on = flags & HTTP_KEEPS_ALIVE && !serving_of(L)->is_stopping;
  size_t length = lua_rawlen(L, -1);
  // The stream copies the draft before the task can wait. No address of it is in a value of Lua's.
  stream_draft draft = streams_draft();
  size_t size = lua_http_text_answer(L, code, type, goes_on ? (int)flags : (int)flags & ~HTTP_KEEPS_ALIVE, draft.bytes,
                                     STREAM_DRAFT_SIZE);
  *draft.length = size;
  lua_pushliteral(L, "sent");
  lua_rawseti(L, REQUEST_TABLE, OWN_RESPONSE);
  push_part(L, size ? WRITE_DRAFT : WRITE);
  lua_getfield(L, CONNECTION, "stream");
  if (!size) lua_rotate(L, -3, 2);
  lua_KContext known = code | (waited ? WAITED : 0) | (goes_on ? GOES_ON : 0) | (lua_KContext)length << LENGTH_SHIFT;
  lua_callk(L, size ? 1 : 2, 0, known, written);
  return written(L, LUA_OK, known);
}

// Pushes the function of a route without parameters, if the handler is a table of routes. The method is at `method`,
// the path after it.
static int push_route(lua_State *L, int method) {
  int top = lua_gettop(L);
  if (push_part(L, EXACT) != LUA_TTABLE) return lua_settop(L, top), 0;
  push_part(L, BEFORE);
  lua_pushvalue(L, method + 1);
  if (lua_rawlen(L, -2) > 0 || lua_rawget(L, top + 1) != LUA_TTABLE) return lua_settop(L, top), 0;
  lua_pushvalue(L, method);
  if (lua_rawget(L, -2) != LUA_TTABLE) return lua_settop(L, top), 0;
  lua_pushvalue(L, -1);
  lua_rawseti(L, REQUEST_TABLE, OWN_ROUTE);
  lua_getfield(L, -1, "fn");
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return 1;
}

// run(connection, request, flags, method, path), in the request's task. Returns the status of its answer.
static int run(lua_State *L) {
  enum { METHOD = FLAGS + 1 };
  lua_settop(L, METHOD + 1);
  luaL_checktype(L, REQUEST_TABLE, LUA_TTABLE);
  luaL_checktype(L, METHOD, LUA_TSTRING);
  push_part(L, EXPLAIN);
  lua_insert(L, HANDLER_OF_ERRORS);
  if (lua_tointeger(L, FLAGS) & HTTP_IS_REFUSED) push_part(L, NOT_ALLOWED);
  else if (!push_route(L, METHOD + 1)) push_part(L, HANDLER);
  lua_replace(L, ANSWER);
  lua_pushvalue(L, REQUEST_TABLE);
  lua_replace(L, ANSWER + 1);
  return handled(L, lua_pcallk(L, 1, 1, HANDLER_OF_ERRORS, 0, handled), 0);
}

// Settings ------------------------------------------------------------------------------------------------------------

// note(name, value): sets "stopping", "compressing", "next_sweep" (a date), or one of Lua's parts.
static int note(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (strcmp(name, "stopping") == 0) return serving_of(L)->is_stopping = 1, 0;
  if (strcmp(name, "compressing") == 0) return serving_of(L)->is_compressing = 1, 0;
  if (strcmp(name, "next_sweep") == 0) return serving_of(L)->next_sweep = luaL_checknumber(L, 2), 0;
  lua_settop(L, 2);
  int part = luaL_checkoption(L, 1, NULL, part_names) + 1;
  if (part == REQUEST || part == LABELS) luaL_checktype(L, 2, LUA_TTABLE);
  lua_rawseti(L, lua_upvalueindex(2), part);
  return 0;
}

// counts() -> requests, and bytes of answers, since the start
static int counts(lua_State *L) {
  lua_pushinteger(L, serving_of(L)->requests);
  lua_pushinteger(L, serving_of(L)->bytes);
  return 2;
}

static void set_function(lua_State *L, const char *name, lua_CFunction function, int upvalues) {
  lua_pushvalue(L, 6);
  lua_pushvalue(L, 7);
  if (upvalues > 2) lua_pushliteral(L, "response"), lua_pushliteral(L, "ended"), lua_pushliteral(L, "keeps_alive");
  lua_pushcclosure(L, function, upvalues);
  lua_setfield(L, -2, name);
}

// serving(max_header, patience, idle, is_logged, max_fields) -> the functions of a server: quick, take, run, note,
// counts
int lua_http_serving(lua_State *L) {
  lua_settop(L, 5);
  lua_Integer max_fields = luaL_checkinteger(L, 5);
  serving *new = lua_newuserdatauv(L, sizeof *new, 0);
  *new = (serving){.max_header = (size_t)luaL_checkinteger(L, 1),
                   .patience = luaL_checknumber(L, 2),
                   .idle = luaL_checknumber(L, 3),
                   .next_sweep = HUGE_VAL,
                   .is_logged = lua_toboolean(L, 4),
                   .max_fields = max_fields < INT_MAX ? (int)max_fields : INT_MAX};
  // Filled in order, so that all are in the table's array part.
  lua_createtable(L, (int)(sizeof part_names / sizeof *part_names), 0);
  lua_createtable(L, 0, 5);
  set_function(L, "quick", quick, 2);
  set_function(L, "take", take, 2);
  set_function(L, "run", run, 5);
  set_function(L, "note", note, 2);
  set_function(L, "counts", counts, 2);
  return 1;
}
