// A wire is one connection to a server of NATS: it writes messages into the buffer of its stream, and finds messages in
// the received bytes.
#pragma once

#include <draft.h>
#include <lauxlib.h>
#include <stdint.h>

// Subjects and headers up to this size are remembered: the next message often has the same ones.
enum { KEPT = 64 };

// The counts of what a bus has sent and received on all its connections.
typedef struct {
  int64_t messages_in, bytes_in, messages_out, bytes_out;
} totals;

typedef struct {
  size_t length;
  char bytes[KEPT];
} remembered;

typedef struct {
  const char *bytes;
  size_t length;
} text;

typedef struct {
  const void *kind;
  totals *totals;
  stream_outlet outlet;
  int is_ready;       // bus:publish may use it
  int is_confirming;  // a timer will ask the server which messages it has
  int is_over;
  int64_t max_payload;
  int64_t sent, sent_bytes, unsent;
  // The bytes that are parsed: a string, or `rest`, if a message began in an earlier piece.
  char *rest;
  size_t length, capacity, need, at;
  int is_in_rest;
  remembered subject, head;
  text inbox;  // the subjects of answers begin with it; a number follows
} wire;

extern const char NATS_WIRE[];

// User values of a wire. `LINK` has the connection's Lua table: the first argument of the Lua functions that the wire
// calls. `QUEUES` has the queues of subscriptions by their numbers.
enum { STREAM = 1, LINK, COUNTS, QUEUES, INBOX, SUBJECT, HEAD, VALUES = HEAD };

// Returns NULL for other values. Costs if removed: luaL_testudata instead takes 100 instructions for each message.
static inline wire *wire_of(lua_State *L, int index) {
  wire *it = lua_touserdata(L, index);
  return it && lua_rawlen(L, index) == sizeof *it && it->kind == NATS_WIRE ? it : NULL;
}

static inline wire *wire_at(lua_State *L, int index) {
  wire *it = wire_of(L, index);
  if (!it) luaL_typeerror(L, index, NATS_WIRE);
  return it;
}

/// make_feed(the metatable of messages, the functions) -> feed. See receive.c. A lua_CFunction.
int nats_make_feed(lua_State *L);
