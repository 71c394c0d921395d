// The messages that go out on a wire, and the wire as an object of Lua.
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "CLuaCodecs.h"
#include "queue.h"

// UNSENT: with more unsent bytes than this, sending waits. LARGE: a message of at least this size is written directly,
// past the buffer. The code in Lua handles both cases.
enum { UNSENT = 1 << 20, LARGE = 16384 };

const char NATS_WIRE[] = "runloop.nats.wire";
static const char TOTALS[] = "runloop.nats.totals";
// The index of the wire in the table of a bus.
enum { FIELD = 1 };

// Sending -------------------------------------------------------------------------------------------------------------

static char *add(char *to, const char *bytes, size_t length) {
  memcpy(to, bytes, length);
  return to + length;
}

static char *add_number(char *to, uint64_t number) {
  char digits[20];
  int count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while (number /= 10);
  while (count > 0) *to++ = digits[--count];
  return to;
}

// Writes a message into the buffer of the stream. If `reply` is empty, `number` is the number of a request, from which
// the reply subject is made. Returns 0 if the stream refuses further bytes.
static int put_message(wire *it, text subject, text reply, uint64_t number, text head, text data) {
  // "HPUB", four blanks, three numbers and a line end take 70 bytes at most.
  char small[512];
  size_t most = 80 + subject.length + reply.length;
  if (most > sizeof small) return 0;
  char *to = small;
  to = head.bytes ? add(to, "HPUB ", 5) : add(to, "PUB ", 4);
  to = add(to, subject.bytes, subject.length);
  *to++ = ' ';
  if (reply.bytes) {
    to = add(to, reply.bytes, reply.length);
    if (number) to = add_number(to, number);
    *to++ = ' ';
  }
  if (head.bytes) {
    to = add_number(to, head.length);
    *to++ = ' ';
  }
  to = add(add_number(to, head.length + data.length), "\r\n", 2);
  size_t line = (size_t)(to - small), all = line + head.length + data.length + 2;
  char *place = it->outlet.room(it->outlet.stream, all);
  if (!place) return 0;
  place = add(place, small, line);
  if (head.bytes) place = add(place, head.bytes, head.length);
  add(add(place, data.bytes, data.length), "\r\n", 2);
  it->unsent = it->outlet.filled(it->outlet.stream, all);
  it->totals->messages_out++;
  it->totals->bytes_out += (int64_t)data.length;
  return 1;
}

static text text_at(lua_State *L, int index) {
  text found = {0};
  if (lua_type(L, index) == LUA_TSTRING) found.bytes = lua_tolstring(L, index, &found.length);
  return found;
}

// The bytes that words of subjects may have: all but blanks, control bytes, wildcards and the dot.
static const unsigned char LETTERS[256] = {
    ['!' ... ')'] = 1, ['+' ... '-'] = 1, ['/' ... '='] = 1, ['?' ... '~'] = 1, [128 ... 255] = 1,
};

// Whether this is a subject without wildcards; Lua code checks all others.
static int is_plain_subject(text subject) {
  if (subject.length < 1 || subject.length > 255) return 0;
  unsigned char before = '.';
  for (size_t i = 0; i < subject.length; i++) {
    unsigned char c = (unsigned char)subject.bytes[i];
    if (!LETTERS[c] && (c != '.' || before == '.')) return 0;
    before = c;
  }
  return before != '.';
}

static int published(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

// publish(bus, subject, data, …): the method of buses. The function's upvalue is the method in Lua, which handles all
// other cases.
static int publish(lua_State *L) {
  int top = lua_gettop(L);
  if (top == 3 && lua_type(L, 1) == LUA_TTABLE && lua_type(L, 3) == LUA_TSTRING) {
    lua_rawgeti(L, 1, FIELD);
    wire *it = wire_of(L, -1);
    text subject = text_at(L, 2), data = text_at(L, 3);
    if (it && it->is_ready && it->is_confirming && (int64_t)data.length <= it->max_payload && data.length < LARGE &&
        it->unsent <= UNSENT && is_plain_subject(subject) && put_message(it, subject, (text){0}, 0, (text){0}, data)) {
      it->sent++;
      it->sent_bytes += (int64_t)data.length;
      lua_pushboolean(L, 1);
      return 1;
    }
    lua_settop(L, 3);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, top, LUA_MULTRET, 0, published);
  return lua_gettop(L);
}

static int make_publish(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushcclosure(L, publish, 1);
  return 1;
}

// put(wire, subject, reply or nil, headers or nil, data) -> the number of unsent bytes; nil if the frame has to be made
// in Lua. `reply`: a subject, or the number of a request. For checked arguments.
static int put(lua_State *L) {
  wire *it = wire_at(L, 1);
  text data = text_at(L, 5), reply = text_at(L, 3);
  lua_Integer number = reply.bytes ? 0 : lua_tointeger(L, 3);
  if (number > 0) reply = it->inbox;
  if (it->is_over || data.length >= LARGE || !data.bytes ||
      !put_message(it, text_at(L, 2), reply, (uint64_t)number, text_at(L, 4), data))
    return 0;
  lua_pushinteger(L, it->unsent);
  return 1;
}

// count(wire, bytes): counts a message that was sent as a text.
static int count(lua_State *L) {
  wire *it = wire_at(L, 1);
  lua_Integer bytes = luaL_checkinteger(L, 2);
  it->totals->messages_out++;
  it->totals->bytes_out += bytes;
  return 0;
}

// sent(wire, [bytes]) -> messages and bytes that the server has to confirm. `bytes`: counts one more sent message of
// this size.
static int sent(lua_State *L) {
  wire *it = wire_at(L, 1);
  if (!lua_isnoneornil(L, 2)) {
    it->sent++;
    it->sent_bytes += luaL_checkinteger(L, 2);
  }
  lua_pushinteger(L, it->sent);
  lua_pushinteger(L, it->sent_bytes);
  return 2;
}

// unsent(wire, [bytes]) -> the number of bytes that the stream had not sent when this was last known. `bytes` sets the
// number.
static int unsent(lua_State *L) {
  wire *it = wire_at(L, 1);
  if (!lua_isnoneornil(L, 2)) it->unsent = luaL_checkinteger(L, 2);
  lua_pushinteger(L, it->unsent);
  return 1;
}

// The wire ------------------------------------------------------------------------------------------------------------

// wire(link, stream, totals, queues, inbox) -> wire. The stream is the thread's outlet.
static int make_wire(lua_State *L) {
  totals *all = luaL_checkudata(L, 3, TOTALS);
  luaL_checktype(L, 4, LUA_TTABLE);
  text inbox;
  inbox.bytes = luaL_checklstring(L, 5, &inbox.length);
  stream_outlet *outlet = streams_outlet();
  luaL_argexpected(L, outlet->stream && lua_topointer(L, 2) == outlet->owner, 2, "stream with an outlet");
  wire *it = lua_newuserdatauv(L, sizeof *it, VALUES);
  memset(it, 0, sizeof *it);
  it->kind = NATS_WIRE;
  it->totals = all;
  it->outlet = *outlet;
  outlet->stream = NULL;
  luaL_setmetatable(L, NATS_WIRE);
  it->inbox = inbox;
  static const int values[] = {LINK, STREAM, COUNTS, QUEUES, INBOX};
  for (int index = 1; index <= 5; index++) {
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, values[index - 1]);
  }
  return 1;
}

// set_payload(wire, bytes)
static int set_payload(lua_State *L) {
  wire_at(L, 1)->max_payload = luaL_checkinteger(L, 2);
  return 0;
}

// set_ready(wire, whether bus:publish may use it)
static int set_ready(lua_State *L) {
  wire_at(L, 1)->is_ready = lua_toboolean(L, 2);
  return 0;
}

// set_confirming(wire, whether a timer will ask the server which messages it has)
static int set_confirming(lua_State *L) {
  wire_at(L, 1)->is_confirming = lua_toboolean(L, 2);
  return 0;
}

// use(bus, wire or nil): bus:publish uses this wire.
static int use(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (!lua_isnil(L, 2)) wire_at(L, 2);
  lua_settop(L, 2);
  lua_rawseti(L, 1, FIELD);
  return 0;
}

// finish(wire): nothing more is sent or received.
static int finish(lua_State *L) {
  wire *it = wire_at(L, 1);
  it->is_over = 1;
  it->is_ready = 0;
  return 0;
}

static int collect(lua_State *L) {
  wire *it = wire_at(L, 1);
  free(it->rest);
  it->rest = NULL;
  it->length = it->capacity = 0;
  return 0;
}

// totals() -> totals
static int make_totals(lua_State *L) {
  totals *it = lua_newuserdatauv(L, sizeof *it, 0);
  memset(it, 0, sizeof *it);
  luaL_setmetatable(L, TOTALS);
  return 1;
}

// read_totals(totals) -> messages in, bytes in, messages out, bytes out
static int read_totals(lua_State *L) {
  totals *it = luaL_checkudata(L, 1, TOTALS);
  lua_pushinteger(L, it->messages_in);
  lua_pushinteger(L, it->bytes_in);
  lua_pushinteger(L, it->messages_out);
  lua_pushinteger(L, it->bytes_out);
  return 4;
}

int nats_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"publish", make_publish},
                                       {"put", put},
                                       {"count", count},
                                       {"sent", sent},
                                       {"unsent", unsent},
                                       {"feed", nats_make_feed},
                                       {"wire", make_wire},
                                       {"set_payload", set_payload},
                                       {"set_ready", set_ready},
                                       {"set_confirming", set_confirming},
                                       {"use", use},
                                       {"finish", finish},
                                       {"totals", make_totals},
                                       {"read_totals", read_totals},
                                       {NULL, NULL}};
  if (luaL_newmetatable(L, NATS_WIRE)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  luaL_newmetatable(L, TOTALS);
  luaL_newlib(L, functions);
  nats_queue_open(L);
  return 1;
}
