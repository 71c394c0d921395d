// A connection of a server: its unread bytes, its deadline, and the request that is being answered. Only connection.c,
// answers.c and server.c write its fields. A connection's task reads requests, and each request has a task of its own.
// Lua has the policy, as functions that C calls: handlers, files, the log, the texts of refusals.
#pragma once

#include "private.h"

/// The state that all connections of a server share.
typedef struct server {
  double head, patience, idle;  // limits in seconds: for a head, for a request, for the silence after one
  double next_sweep;            // when expired connections are looked for
  size_t max_header;
  lua_Integer max_body, requests, bytes;
  int max_fields, is_stopping, is_logged, is_compressing;
} server;

/// The progress of the answer to a request: after DONE or LATE, the request's task can no longer change anything.
typedef enum ending { NOT_ENDED, DONE, LATE, GONE } ending;

typedef struct connection {
  http_reader reader;
  server *server;             // an upvalue of every function that gets the connection
  const void *request;        // the request that a task answers; NULL if there is none
  double deadline, began;     // dates of the loop's clock; when the request or its head began
  lua_Integer task, record;   // the numbers of the request's task; 0 if it has not waited
  lua_Integer taken;          // bytes of the request's body that its task has
  lua_Integer traffic[3];     // bytes read, written and not acknowledged when they were last compared
  int flags;                  // the request's
  ending ending;              // the request's
  unsigned char is_active;    // a request is being answered, or its body discarded
  unsigned char is_claimed;   // its answer has begun
  unsigned char is_left;      // it is answered, and the rest of its body is on its way
  unsigned char is_full;      // the task waits until unread bytes are taken
  unsigned char is_upgraded;  // it speaks another protocol now
  unsigned char is_over;      // no further request is read
  unsigned char has_begun;    // a part of a head has arrived
} connection;

/// Values of a connection's userdata.
enum { STREAM = 1, REQUEST, SOCKET };

/// Upvalues of each function: the server, the table of its policy, the metatable of its connections, and the buffer for
/// output. Each server has a metatable of its own, so that its functions refuse connections of another server.
enum { SERVER = 1, POLICY, METATABLE, OUTPUT };

// The policy: functions and values of Lua by number, in the order of their names.
// clang-format off
enum {
  READ = 1, WRITE, WRITE_DRAFT, QUEUE, CLOSE, START, SITE, METATABLE_OF_REQUESTS, LABELS, LABEL, HANDLER, ENCODER,
  EXPLAIN, NOW, SCHEDULE, CONCLUDE, LINGER, REFUSE, COMPARE, WAKE, NOT_ALLOWED, EXACT, BEFORE, LOG, OWNER, RUN, ENCODE
};
// clang-format on

static inline int push(lua_State *L, int number) { return lua_rawgeti(L, lua_upvalueindex(POLICY), number); }

// Returns the connection of a function that goes on after a wait: the connection was checked before the wait.
static inline connection *self_of(lua_State *L) { return lua_touserdata(L, 1); }

// Whether the value at the index 2 is the connection's request, which may have ended.
static inline int has_request(lua_State *L, const connection *c) {
  return c->request && lua_topointer(L, 2) == c->request;
}

// Whether the value at the index 2 is a request that its task may answer.
static inline int is_current(lua_State *L, const connection *c) { return c->ending == NOT_ENDED && has_request(L, c); }

static inline int keeps_alive(const connection *c) { return c->flags & HTTP_KEEPS_ALIVE && !c->server->is_stopping; }

/// Returns the connection at the index 1, or raises an error.
connection *http_check_self(lua_State *L);
/// Calls the function `part` of the policy. Its argument is the connection at the index 1 if `value` is 0, else the
/// connection's user value with this number.
void http_call(lua_State *L, int part, int value);
/// Returns the date of the loop's clock in seconds.
double http_now(lua_State *L);
/// Sets the deadline.
void http_set_date(lua_State *L, connection *c, double date);
/// Closes the stream. No further request is read.
void http_end(lua_State *L, connection *c);
/// Begins requests until it has to wait, or the connection ends: see `next_request` in server.c.
int http_go_on(lua_State *L, connection *c);
/// Called when an answer has been written: connection and request are at the indices 1 and 2. Returns its status.
int http_finish(lua_State *L, connection *c, lua_Integer status, lua_Integer length);
/// The function of a request's task: run(connection, request, method, path). Returns the status of the answer.
int http_run(lua_State *L);
