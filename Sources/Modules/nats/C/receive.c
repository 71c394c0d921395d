// Handles the messages that arrive on a wire, several in one call. This file makes the table of each message, and calls
// functions in Lua only where they have to decide something.
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "wire.h"

// The longest line. A longer line ends the connection.
enum { LONGEST = 65536 };
// The subscription of answers to requests.
enum { ANSWERS = 1 };

// The functions that `feed` calls are its upvalues. The first argument of the first six is the connection.
enum {
  MESSAGE = 1,  // the metatable of messages
  ON_ANSWER,    // (link, message, number of the request): an answer without headers
  ON_HEADED,    // (link, number, subject or number of the request, reply, headers, data): a message with headers
  ON_MESSAGE,   // (link, number, message): a message whose subscription has no queue here
  ON_LINE,      // (link, line): any other line
  ON_BAD,       // (link, line): the bytes are not NATS's protocol
  ON_PUSH,      // (subscription, what): see queue.h
  UPVALUES = ON_PUSH,
  // The names of fields. As upvalues, they need not be looked up for each message.
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
  if (it->has_head && (!read_number(words[count - 2], &it->head) || it->head > it->size)) return 0;
  it->has_head = it->head > 0;
  return 1;
}

// Pushes a text that is often the same as the one before; a user value keeps the last one.
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

// Pushes the subject. Each answer has a different subject.
static void push_subject(lua_State *L, wire *it, const frame *head) {
  if (head->sid == ANSWERS) lua_pushlstring(L, head->subject.bytes, head->subject.length);
  else push_remembered(L, &it->subject, SUBJECT, head->subject);
}

// Pushes the number of the request that an answer belongs to; 0 if it belongs to none.
static void push_number(lua_State *L, const wire *it, const frame *head) {
  text subject = head->subject;
  size_t length = it->inbox.length;
  uint64_t number = 0;
  if (subject.length > length && memcmp(subject.bytes, it->inbox.bytes, length) == 0 &&
      !read_number((text){subject.bytes + length, subject.length - length}, &number))
    number = 0;
  lua_pushinteger(L, (lua_Integer)number);
}

// Pushes a message without headers. A message without a reply has only two fields.
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
// call; -1 if no call was pushed.
static int take_message(lua_State *L, wire *it, const frame *head, const char *data) {
  it->totals->messages_in++;
  if (head->has_head) {
    push_call(L, ON_HEADED);
    lua_pushinteger(L, (lua_Integer)head->sid);
    if (head->sid == ANSWERS) push_number(L, it, head);
    else push_subject(L, it, head);
    if (head->reply.bytes) lua_pushlstring(L, head->reply.bytes, head->reply.length);
    else lua_pushnil(L);
    push_remembered(L, &it->head, HEAD, (text){data, head->head});
    lua_pushlstring(L, data + head->head, head->size - head->head);
    return 6;
  }
  if (head->sid == ANSWERS) {
    push_call(L, ON_ANSWER);
    push_message(L, it, head, data);
    push_number(L, it, head);
    return 3;
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

// Makes room for this number of bytes in `rest`.
static void reserve(lua_State *L, wire *it, size_t capacity) {
  char *larger = realloc(it->rest, capacity);
  if (!larger) luaL_error(L, "not enough memory");
  it->rest = larger;
  it->capacity = capacity;
}

// Keeps the bytes from `at` on for the next piece.
static void keep_rest(lua_State *L, wire *it, const char *bytes, size_t length) {
  size_t left = length - it->at;
  if (it->is_in_rest) {
    memmove(it->rest, it->rest + it->at, left);
    it->length = left;
  } else if (left > 0) {
    if (left > it->capacity) reserve(L, it, left * 2);
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
    reserve(L, it, capacity < it->need ? it->need : capacity);
  }
  memcpy(it->rest + it->length, bytes, count);
  it->length += count;
  if (it->length < it->need) return 0;
  it->need = 0;
  return go_on(L, LUA_OK, 0);
}

// make_feed(the metatable of messages, the functions) -> feed
int nats_make_feed(lua_State *L) {
  luaL_checktype(L, MESSAGE, LUA_TTABLE);
  for (int index = ON_ANSWER; index <= UPVALUES; index++) luaL_checktype(L, index, LUA_TFUNCTION);
  lua_settop(L, UPVALUES);
  lua_pushliteral(L, "subject");
  lua_pushliteral(L, "data");
  lua_pushcclosure(L, feed, DATA_NAME);
  return 1;
}
