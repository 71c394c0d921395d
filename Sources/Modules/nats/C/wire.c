// The frames of NATS's protocol. A wire is one connection: it writes messages into the buffer of its stream, and finds
// those that arrive in the bytes that were read. Several messages are handled by one call. A message table is made at
// once; the functions in Lua are called only where they have to decide something.
#include <lauxlib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "CLuaCodecs.h"
#include "queue.h"

// The longest line. Longer ones end the connection.
enum { LONGEST = 65536 };
// The most unsent bytes for which a message goes out without a wait; and the size from which a message is written
// directly, past the buffer: both are decided in Lua.
enum { UNSENT = 1 << 20, LARGE = 16384 };
// Subjects and headers up to this size are remembered: the next message often has the same.
enum { KEPT = 64 };
// The subscription of answers to requests.
enum { ANSWERS = 1 };

static const char WIRE[] = "runloop.nats.wire", TOTALS[] = "runloop.nats.totals";
// The index of a bus that has its wire.
enum { FIELD = 1 };

// What a bus has sent and received on all its connections.
typedef struct {
  int64_t messages_in, bytes_in, messages_out, bytes_out;
} totals;

typedef struct {
  size_t length;
  char bytes[KEPT];
} remembered;

typedef struct {
  const void *kind;
  totals *totals;
  // The stream and its functions, see StreamBinding. `room` returns NULL if the stream takes no bytes; `filled` returns
  // the number of unsent bytes.
  void *stream;
  char *(*room)(void *stream, size_t count);
  int64_t (*filled)(void *stream, size_t count);
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
} wire;

// User values of a wire. Functions get the connection as an object of Lua. `QUEUES` has the queues of subscriptions by
// their numbers.
enum { STREAM = 1, LINK, COUNTS, QUEUES, SUBJECT, HEAD, VALUES = HEAD };

// Returns NULL for other values. Costs if removed: luaL_testudata instead takes 100 instructions for each message.
static wire *wire_of(lua_State *L, int index) {
  wire *it = lua_touserdata(L, index);
  return it && lua_rawlen(L, index) == sizeof *it && it->kind == WIRE ? it : NULL;
}

static wire *wire_at(lua_State *L, int index) {
  wire *it = wire_of(L, index);
  if (!it) luaL_typeerror(L, index, WIRE);
  return it;
}

// Sending -------------------------------------------------------------------------------------------------------------

typedef struct {
  const char *bytes;
  size_t length;
} text;

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

// Writes a message into the buffer of the stream. Returns 0 if the stream takes nothing.
static int put_message(wire *it, text subject, text reply, text head, text data) {
  // "HPUB", three blanks, two numbers and two line ends take 53 bytes at most.
  char small[512];
  size_t most = 56 + subject.length + reply.length;
  if (most > sizeof small) return 0;
  char *to = small;
  to = head.bytes ? add(to, "HPUB ", 5) : add(to, "PUB ", 4);
  to = add(to, subject.bytes, subject.length);
  *to++ = ' ';
  if (reply.bytes) {
    to = add(to, reply.bytes, reply.length);
    *to++ = ' ';
  }
  if (head.bytes) {
    to = add_number(to, head.length);
    *to++ = ' ';
  }
  to = add(add_number(to, head.length + data.length), "\r\n", 2);
  size_t line = (size_t)(to - small), all = line + head.length + data.length + 2;
  char *place = it->room(it->stream, all);
  if (!place) return 0;
  place = add(place, small, line);
  if (head.bytes) place = add(place, head.bytes, head.length);
  add(add(place, data.bytes, data.length), "\r\n", 2);
  it->unsent = it->filled(it->stream, all);
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

// Whether this is a subject without wildcards; others are looked at in Lua.
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

// publish(bus, subject, data, …): the method of buses. Its upvalue is the method that handles every case.
static int publish(lua_State *L) {
  int top = lua_gettop(L);
  if (top == 3 && lua_type(L, 1) == LUA_TTABLE && lua_type(L, 3) == LUA_TSTRING) {
    lua_rawgeti(L, 1, FIELD);
    wire *it = wire_of(L, -1);
    text subject = text_at(L, 2), data = text_at(L, 3);
    if (it && it->is_ready && it->is_confirming && (int64_t)data.length <= it->max_payload && data.length < LARGE &&
        it->unsent <= UNSENT && is_plain_subject(subject) && put_message(it, subject, (text){0}, (text){0}, data)) {
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
// in Lua. For checked arguments.
static int put(lua_State *L) {
  wire *it = wire_at(L, 1);
  text data = text_at(L, 5);
  if (it->is_over || data.length >= LARGE || !data.bytes ||
      !put_message(it, text_at(L, 2), text_at(L, 3), text_at(L, 4), data))
    return 0;
  lua_pushinteger(L, it->unsent);
  return 1;
}

// count(wire, bytes): a message went out as a text.
static int count(lua_State *L) {
  wire *it = wire_at(L, 1);
  lua_Integer bytes = luaL_checkinteger(L, 2);
  it->totals->messages_out++;
  it->totals->bytes_out += bytes;
  return 0;
}

// sent(wire, [bytes]) -> messages and bytes that the server has to confirm. `bytes`: one more message was sent.
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

// unsent(wire, [bytes]) -> the number of bytes that the stream has not sent, when it was last known. `bytes`: it is
// this.
static int unsent(lua_State *L) {
  wire *it = wire_at(L, 1);
  if (!lua_isnoneornil(L, 2)) it->unsent = luaL_checkinteger(L, 2);
  lua_pushinteger(L, it->unsent);
  return 1;
}

// Receiving -----------------------------------------------------------------------------------------------------------

// The functions that `feed` calls, its upvalues. The first argument of the first six is the connection.
enum {
  MESSAGE = 1,  // the metatable of messages
  ON_ANSWER,    // (link, message): an answer without headers
  ON_HEADED,    // (link, number, subject, reply, headers, data): a message with headers
  ON_MESSAGE,   // (link, number, message): a message whose subscription has no queue here
  ON_LINE,      // (link, line): any other line
  ON_BAD,       // (link, line): the bytes are not NATS's protocol
  ON_PUSH,      // (subscription, what): see queue.h
  UPVALUES = ON_PUSH,
  // The names of fields, which would be looked up again for each message.
  SUBJECT_NAME,
  DATA_NAME
};

typedef struct {
  text subject, reply;
  uint64_t sid, head, size;
  int has_head;
} frame;

// Reads the next word of a line. Returns 0 at its end.
static int next_word(const char **at, const char *end, text *word) {
  const char *from = *at;
  while (from < end && (*from == ' ' || *from == '\t')) from++;
  const char *to = from;
  while (to < end && *to != ' ' && *to != '\t') to++;
  *word = (text){from, (size_t)(to - from)};
  *at = to;
  return to > from;
}

// Reads a number of up to 18 digits.
static int read_number(text word, uint64_t *number) {
  *number = 0;
  if (word.length < 1 || word.length > 18) return 0;
  for (size_t i = 0; i < word.length; i++) {
    if (word.bytes[i] < '0' || word.bytes[i] > '9') return 0;
    *number = *number * 10 + (uint64_t)(word.bytes[i] - '0');
  }
  return 1;
}

// Reads "MSG subject sid [reply] size" and "HMSG subject sid [reply] head size". Returns 0 for other lines.
static int read_frame(const char *line, const char *end, frame *it) {
  text words[6];
  int count = 0, numbers;
  it->has_head = end > line && *line == 'H';
  line += it->has_head;
  if (end - line < 4 || memcmp(line, "MSG", 3) != 0 || (line[3] != ' ' && line[3] != '\t')) return 0;
  line += 3;
  while (count < 6 && next_word(&line, end, &words[count])) count++;
  numbers = it->has_head ? 2 : 1;
  if (count != 2 + numbers && count != 3 + numbers) return 0;
  it->subject = words[0];
  it->reply = count == 3 + numbers ? words[2] : (text){0};
  if (!read_number(words[1], &it->sid) || !read_number(words[count - 1], &it->size)) return 0;
  it->head = 0;
  return !it->has_head || (read_number(words[count - 2], &it->head) && it->head <= it->size);
}

// Pushes a text that is often the same as the one before, which is a user value.
static void push_remembered(lua_State *L, remembered *last, int value, text it) {
  if (it.length == last->length && memcmp(it.bytes, last->bytes, it.length) == 0) {
    lua_getiuservalue(L, 1, value);
    return;
  }
  lua_pushlstring(L, it.bytes, it.length);
  if (it.length > KEPT || it.length == 0) return;
  memcpy(last->bytes, it.bytes, it.length);
  last->length = it.length;
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, value);
}

// Pushes the subject. Each answer has its own.
static void push_subject(lua_State *L, wire *it, const frame *head) {
  if (head->sid == ANSWERS) lua_pushlstring(L, head->subject.bytes, head->subject.length);
  else push_remembered(L, &it->subject, SUBJECT, head->subject);
}

// Pushes a message without headers. One without a reply has two fields only.
static void push_message(lua_State *L, wire *it, const frame *head, const char *data) {
  lua_createtable(L, 0, head->reply.bytes ? 4 : 2);
  lua_pushvalue(L, lua_upvalueindex(SUBJECT_NAME));
  push_subject(L, it, head);
  lua_rawset(L, -3);
  lua_pushvalue(L, lua_upvalueindex(DATA_NAME));
  lua_pushlstring(L, data, head->size);
  lua_rawset(L, -3);
  if (head->reply.bytes) {
    lua_pushlstring(L, head->reply.bytes, head->reply.length);
    lua_setfield(L, -2, "reply");
    lua_getiuservalue(L, 1, LINK);
    lua_getfield(L, -1, "owner");
    lua_setfield(L, -3, "_bus");
    lua_pop(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(MESSAGE));
  lua_setmetatable(L, -2);
}

// Pushes a function and the connection.
static void push_call(lua_State *L, int function) {
  lua_pushvalue(L, lua_upvalueindex(function));
  lua_getiuservalue(L, 1, LINK);
}

// Puts a message into the queue of its subscription, or pushes a call of Lua. Returns the number of arguments of the
// call; -1 if there is none.
static int take_message(lua_State *L, wire *it, const frame *head, const char *data) {
  it->totals->messages_in++;
  if (head->has_head) {
    push_call(L, ON_HEADED);
    lua_pushinteger(L, (lua_Integer)head->sid);
    push_subject(L, it, head);
    if (head->reply.bytes) lua_pushlstring(L, head->reply.bytes, head->reply.length);
    else lua_pushnil(L);
    push_remembered(L, &it->head, HEAD, (text){data, head->head});
    lua_pushlstring(L, data + head->head, head->size - head->head);
    return 6;
  }
  if (head->sid == ANSWERS) {
    push_call(L, ON_ANSWER);
    push_message(L, it, head, data);
    return 2;
  }
  lua_getiuservalue(L, 1, QUEUES);
  if (lua_rawgeti(L, -1, (lua_Integer)head->sid) != LUA_TUSERDATA) {
    push_call(L, ON_MESSAGE);
    lua_pushinteger(L, (lua_Integer)head->sid);
    push_message(L, it, head, data);
    return 3;
  }
  int queue = lua_gettop(L);
  push_message(L, it, head, data);
  int what = nats_queue_push(L, queue, queue + 1, head->size, 0);
  if (what == 0) return -1;
  lua_pushvalue(L, lua_upvalueindex(ON_PUSH));
  lua_getiuservalue(L, queue, QUEUE_OWNER);
  lua_pushinteger(L, what);
  return 2;
}

// Keeps the bytes from `at` on for the next piece.
static void keep_rest(lua_State *L, wire *it, const char *bytes, size_t length) {
  size_t left = length - it->at;
  if (it->is_in_rest) {
    memmove(it->rest, it->rest + it->at, left);
    it->length = left;
  } else if (left > 0) {
    if (left > it->capacity) {
      char *larger = realloc(it->rest, left * 2);
      if (!larger) luaL_error(L, "not enough memory");
      it->rest = larger;
      it->capacity = left * 2;
    }
    memcpy(it->rest, bytes + it->at, left);
    it->length = left;
  }
  if (it->length == 0) {
    free(it->rest);
    it->rest = NULL;
    it->capacity = 0;
  }
  it->at = 0;
}

// Pushes the call that ends the connection.
static int refuse(lua_State *L, wire *it, const char *line, size_t length) {
  it->is_over = 1;
  push_call(L, ON_BAD);
  lua_pushlstring(L, line, length);
  return 2;
}

// Takes one line, with its message, from `at` on. Returns the number of arguments of the pushed call; -1 if there is no
// call; -2 if bytes are missing.
static int take_line(lua_State *L, wire *it, const char *bytes, size_t length) {
  const char *line = bytes + it->at, *end = bytes + length, *stop = line;
  while ((stop = memchr(stop, '\r', (size_t)(end - stop))) && stop + 1 < end && stop[1] != '\n') stop++;
  if (!stop || stop + 1 >= end) {
    return end - line <= LONGEST + 1 ? -2 : refuse(L, it, line, 41);
  }
  frame head;
  size_t line_length = (size_t)(stop - line);
  if (line_length > LONGEST) return refuse(L, it, line, line_length);
  if (!read_frame(line, stop, &head)) {
    push_call(L, ON_LINE);
    lua_pushlstring(L, line, line_length);
    it->at = (size_t)(stop + 2 - bytes);
    return 2;
  }
  const char *data = stop + 2;
  if ((int64_t)head.size > it->max_payload) return refuse(L, it, line, line_length);
  if ((uint64_t)(end - data) < head.size + 2) {
    it->need = (size_t)(data - line) + head.size + 2;
    return -2;
  }
  if (data[head.size] != '\r' || data[head.size + 1] != '\n') return refuse(L, it, line, line_length);
  it->at = (size_t)(data - bytes) + head.size + 2;
  return take_message(L, it, &head, data);
}

static int go_on(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  wire *it = lua_touserdata(L, 1);
  while (!it->is_over) {
    size_t length = it->length;
    lua_settop(L, 2);
    const char *bytes = it->is_in_rest ? it->rest : lua_tolstring(L, 2, &length);
    int count = it->at < length ? take_line(L, it, bytes, length) : -2;
    if (count == -2) {
      keep_rest(L, it, bytes, length);
      return 0;
    }
    if (count >= 0) lua_callk(L, count, 0, 0, go_on);
  }
  return 0;
}

// feed(wire, bytes): handles the bytes that were read. May wait.
static int feed(lua_State *L) {
  wire *it = wire_at(L, 1);
  size_t count;
  const char *bytes = luaL_checklstring(L, 2, &count);
  lua_settop(L, 2);
  it->totals->bytes_in += (int64_t)count;
  it->is_in_rest = it->length > 0;
  if (!it->is_in_rest) return go_on(L, LUA_OK, 0);
  if (it->capacity - it->length < count) {
    size_t capacity = (it->length + count) * 2;
    if (capacity < it->need) capacity = it->need;
    char *larger = realloc(it->rest, capacity);
    if (!larger) return luaL_error(L, "not enough memory");
    it->rest = larger;
    it->capacity = capacity;
  }
  memcpy(it->rest + it->length, bytes, count);
  it->length += count;
  if (it->length < it->need) return 0;
  it->need = 0;
  return go_on(L, LUA_OK, 0);
}

// make_feed(the metatable of messages, the functions) -> feed
static int make_feed(lua_State *L) {
  luaL_checktype(L, MESSAGE, LUA_TTABLE);
  for (int index = ON_ANSWER; index <= UPVALUES; index++) luaL_checktype(L, index, LUA_TFUNCTION);
  lua_settop(L, UPVALUES);
  lua_pushliteral(L, "subject");
  lua_pushliteral(L, "data");
  lua_pushcclosure(L, feed, DATA_NAME);
  return 1;
}

// The wire ------------------------------------------------------------------------------------------------------------

// wire(link, stream, totals, queues, the three numbers of stream:outlet) -> wire
static int make_wire(lua_State *L) {
  totals *all = luaL_checkudata(L, 3, TOTALS);
  luaL_checktype(L, 4, LUA_TTABLE);
  void *stream = (void *)(intptr_t)luaL_checkinteger(L, 5);
  intptr_t room = (intptr_t)luaL_checkinteger(L, 6), filled = (intptr_t)luaL_checkinteger(L, 7);
  wire *it = lua_newuserdatauv(L, sizeof *it, VALUES);
  memset(it, 0, sizeof *it);
  it->kind = WIRE;
  it->totals = all;
  it->stream = stream;
  it->room = (char *(*)(void *, size_t))room;
  it->filled = (int64_t(*)(void *, size_t))filled;
  luaL_setmetatable(L, WIRE);
  static const int values[] = {LINK, STREAM, COUNTS, QUEUES};
  for (int index = 1; index <= 4; index++) {
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
                                       {"feed", make_feed},
                                       {"wire", make_wire},
                                       {"set_payload", set_payload},
                                       {"set_ready", set_ready},
                                       {"set_confirming", set_confirming},
                                       {"use", use},
                                       {"finish", finish},
                                       {"totals", make_totals},
                                       {"read_totals", read_totals},
                                       {NULL, NULL}};
  if (luaL_newmetatable(L, WIRE)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  luaL_newmetatable(L, TOTALS);
  luaL_newlib(L, functions);
  nats_queue_open(L);
  return 1;
}
