// Reads requests, begins them, and ends them: the life of a connection.
#include <limits.h>

#include "connection.h"

// The size is compared since debug functions may give the
// metatable to any userdata.
connection *http_check_self(lua_State *L) {
  connection *c = lua_touserdata(L, 1);
  if (!c || lua_rawlen(L, 1) != sizeof *c || !lua_getmetatable(L, 1) ||
      !lua_rawequal(L, -1, lua_upvalueindex(METATABLE)))
    luaL_typeerror(L, 1, "http.connection");
  lua_pop(L, 1);
  return c;
}

double http_now(lua_State *L) {
  push(L, NOW);
  lua_call(L, 0, 1);
  double date = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return date;
}

void http_set_date(lua_State *L, connection *c, double date) {
  c->deadline = date;
  if (date >= c->server->next_sweep) return;
  push(L, SCHEDULE);
  lua_pushnumber(L, date);
  lua_call(L, 1, 0);
  c->server->next_sweep = date;
}

void http_call(lua_State *L, int part, int value) {
  push(L, part);
  if (value) lua_getiuservalue(L, 1, value);
  else lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
}

// Pops the value on top of the stack: the request that is being answered from now on, or nil.
static void set_request(lua_State *L, connection *c) {
  c->request = lua_topointer(L, -1);
  c->is_active = c->request != NULL;
  lua_setiuservalue(L, 1, REQUEST);
}

void http_end(lua_State *L, connection *c) {
  c->is_over = 1;
  http_call(L, CLOSE, STREAM);
  if (c->is_full) http_call(L, WAKE, REQUEST);
}

// Answers a request that has not begun. The request's table is at `request`; 0 if there is no request.
static void refuse(lua_State *L, connection *c, int status, const char *problem, int request) {
  if (!c->has_begun) c->began = http_now(L);
  push(L, REFUSE);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, status);
  lua_pushstring(L, problem);
  if (request) lua_pushvalue(L, request);
  lua_call(L, request ? 4 : 3, 0);
}

// Pushes the label of a request, whose method is at the index `method`, followed by the path.
static void push_label(lua_State *L, int method) {
  push(L, LABELS);
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
  push(L, LABEL);
  lua_pushvalue(L, method);
  lua_pushvalue(L, method + 1);
  lua_call(L, 2, 1);
}

// Starts the task of a request whose method, path and table are on top of the stack.
static void launch(lua_State *L, connection *c) {
  server *server = c->server;
  int request = lua_gettop(L), method = request - 2;
  lua_pushvalue(L, request);
  set_request(L, c);
  c->is_claimed = c->is_left = c->has_begun = 0;
  c->ending = NOT_ENDED;
  c->task = c->record = c->taken = 0;
  server->requests++;
  if (server->is_logged) c->began = http_now(L);
  if (c->reader.left) http_call(L, COMPARE, 0);
  push(L, START);
  push(L, SITE);
  push_label(L, method);
  push(L, RUN);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, request);
  lua_pushvalue(L, method);
  lua_pushvalue(L, method + 1);
  lua_call(L, 7, 3);
  double began = lua_tonumber(L, -3);
  if (lua_isnil(L, -2)) {
    http_set_date(L, c, began + server->idle);
    return;
  }
  c->task = lua_tointeger(L, -2);
  c->record = lua_tointeger(L, -1);
  if (!c->is_upgraded) http_set_date(L, c, began + server->patience);
}

// Begins the request with this head. The text of the head is on top of the stack, and is popped. `rest`: the bytes
// after the head; NULL if the head is still part of the unread bytes, and is to be consumed.
static void begin(lua_State *L, connection *c, const http_head *head, const http_span *rest) {
  int text = lua_gettop(L);
  luaL_checkstack(L, 20, NULL);
  c->flags = lua_http_push_request(L, head, text);
  push(L, METATABLE_OF_REQUESTS);
  lua_setmetatable(L, -2);
  http_expect(&c->reader, head->is_chunked ? HTTP_IS_CHUNKED : head->content_length > 0 ? head->content_length : 0);
  if (rest) lua_http_feed(L, &c->reader, rest->start, rest->length);
  else http_skip(&c->reader, head->length);
  if (lua_isnil(L, -2)) {
    refuse(L, c, 400, "a path that leaves its root, or with a bad escape", text + 3);
  } else if (c->reader.left > c->server->max_body) {
    lua_pushfstring(L, "the body is longer than %I bytes", c->server->max_body);
    refuse(L, c, 413, lua_tostring(L, -1), text + 3);
  } else {
    launch(L, c);
  }
  lua_settop(L, text - 1);
}

// Begins requests whose heads are among the unread bytes, until one is being answered or the next head is incomplete.
static void process(lua_State *L, connection *c) {
  server *server = c->server;
  while (!c->is_active && !c->is_over && http_unread(&c->reader)) {
    http_head head;
    int found = http_next_head(&c->reader, &head, 0, server->max_header, server->max_fields);
    if (found < 0) {
      refuse(L, c, head.status, head.problem, 0);
    } else if (found > 0) {
      lua_pushlstring(L, http_bytes(&c->reader), head.length);
      begin(L, c, &head, NULL);
    } else {
      if (!c->has_begun) http_set_date(L, c, (c->began = http_now(L)) + server->head);
      c->has_begun = 1;
      return;
    }
  }
}

/// Bytes of a body that are discarded after the answer, so that the connection can continue.
enum { DISCARDED = 262144 };
/// Unread bytes above which nothing is read while a request is being answered.
enum { ENOUGH = 262144 };

// Called when a request has been answered, and when a further part of its body arrives after that.
static void finished(lua_State *L, connection *c) {
  server *server = c->server;
  int was_at_once = !c->task;
  c->task = c->record = 0;
  int is_through = keeps_alive(c) && !c->is_over ? http_discard(&c->reader, DISCARDED) : 0;
  if (is_through < 0) {
    // The rest of the body is still on its way, and the next request follows it.
    c->is_left = 1;
    http_call(L, COMPARE, 0);
    http_set_date(L, c, http_now(L) + server->idle);
    return;
  }
  c->is_left = 0;
  if (!is_through) http_end(L, c);
  else if (!was_at_once) http_set_date(L, c, http_now(L) + server->idle);
  if (c->is_full || c->flags & HTTP_HAS_BODY) http_call(L, WAKE, REQUEST);
  lua_pushnil(L);
  set_request(L, c);
  // If the request was answered at once, the loop in `process` continues with the next request.
  if (!was_at_once) process(L, c);
}

// Handles the result of a read, which is on top of the stack. Returns 0 at the end of the input.
static int receive(lua_State *L, connection *c) {
  http_span bytes;
  bytes.start = lua_tolstring(L, -1, &bytes.length);
  if (!bytes.start) return 0;
  if (c->is_over) return 1;
  server *server = c->server;
  http_head head;
  if (c->is_active || http_unread(&c->reader) ||
      http_read_head(&head, bytes.start, bytes.length, 0, server->max_header, server->max_fields) <= 0) {
    lua_http_feed(L, &c->reader, bytes.start, bytes.length);
    if (c->is_left) finished(L, c);
    else if (c->is_active) http_call(L, WAKE, REQUEST);
    return 1;
  }
  // Most requests arrive as one piece, which is then the text of the head.
  http_span rest = {bytes.start + head.length, bytes.length - head.length};
  if (rest.length) lua_pushlstring(L, bytes.start, head.length);
  begin(L, c, &head, &rest);
  return 1;
}

static int read_on(lua_State *L, int status, lua_KContext context);

int http_go_on(lua_State *L, connection *c) {
  do {
    lua_settop(L, 1);
    process(L, c);
    if (c->is_over) return 0;
    if (c->is_active && c->is_upgraded) return lua_pushliteral(L, "upgraded"), 1;
    c->is_full = c->is_active && http_unread(&c->reader) >= ENOUGH;
    if (c->is_full) return lua_pushliteral(L, "full"), 1;
    push(L, READ);
    lua_getiuservalue(L, 1, STREAM);
    lua_pushinteger(L, 65536);
    lua_callk(L, 2, 1, 0, read_on);
  } while (receive(L, c));
  return 0;
}

static int read_on(lua_State *L, int status, lua_KContext context) {
  connection *c = ((void)status, (void)context, self_of(L));
  return receive(L, c) ? http_go_on(L, c) : 0;
}

static int lingered(lua_State *L, int status, lua_KContext code) {
  (void)status;
  finished(L, self_of(L));
  lua_pushinteger(L, code);
  return 1;
}

int http_finish(lua_State *L, connection *c, lua_Integer status, lua_Integer length) {
  server *server = c->server;
  if (!is_current(L, c)) return 0;
  c->ending = DONE;
  server->bytes += length;
  if (server->is_logged) {
    push(L, LOG);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushinteger(L, status);
    lua_pushinteger(L, length);
    lua_call(L, 4, 0);
  }
  // If the connection is going to be closed, a client that reads slowly gets the same time as on a connection that
  // continues.
  if (!keeps_alive(c) && !c->is_over) {
    push(L, LINGER);
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 0, status, lingered);
  }
  return lingered(L, LUA_OK, status);
}
