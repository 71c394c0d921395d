// Compression by the system's libz: whole texts, stages of a copy, and the pieces of an HTTP answer.
#include <deflate.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../../encoding/C/codecs.h"

enum { GZIP = 31, ZLIB = 15, RAW = -15, ANY = 47 };  // zlib's codes for the form of a window of 32 kB
enum { PIECE = 1 << 20 };                            // output that a stage returns at once
enum { SHORT_RAW = -12, SHORT = 1 << 12 };           // for texts that fit into a window of 4 kB
enum { MOST_IN = 1 << 30 };                          // zlib counts input with 32 bits

typedef struct stage {
  z_stream z;
  linux_bytes output;
  size_t most, made;  // bytes of output: the limit, and how many there were
  uint64_t taken;     // bytes of input before those that `z` has
  const char *code;   // the failure's
  char problem[120];
  int compresses, format, is_open, has_begun, has_ended, is_over;
} stage;

static const char class_name[] = "runloop.zlib.stage";

#define FUNCTIONS(X) \
  X(deflateInit2_)   \
  X(deflate)         \
  X(deflateReset)    \
  X(deflateEnd) X(deflateSetDictionary) X(inflateInit2_) X(inflate) X(inflateReset) X(inflateEnd) X(crc32)
static struct {
#define DECLARE(name) __typeof__(name) *name;
  FUNCTIONS(DECLARE)
} libz;

static const char *find_functions(void *library) {
#define FIND(name) \
  if (!(libz.name = dlsym(library, #name))) return "has no " #name ": it is too old";
  FUNCTIONS(FIND)
  return NULL;
}

static int use_zlib(lua_State *L) {
  static struct linux_library library = {"libz.so.1", "zlib1g", find_functions, 0};
  return codecs_use(L, &library);
}

static void close_stage(stage *self) {
  if (self->is_open) self->compresses ? libz.deflateEnd(&self->z) : libz.inflateEnd(&self->z);
  self->is_open = 0;
  free(self->output.bytes);
  self->output = (linux_bytes){0};
}

static int collect(lua_State *L) { return close_stage(luaL_checkudata(L, 1, class_name)), 0; }

static int out_of_memory(lua_State *L) { return luaL_error(L, "not enough memory"); }

static int fail(stage *self, const char *code, const char *text, uint64_t number) {
  self->code = code;
  snprintf(self->problem, sizeof self->problem, text, (unsigned long long)number);
  return 0;
}

// Pushes a new stage. The stage's format is one of zlib's codes above; `level` is that of a compressor.
static stage *push_stage(lua_State *L, int compresses, int format, int level, size_t most) {
  stage *self = lua_newuserdatauv(L, sizeof *self, 1);
  *self = (stage){.compresses = compresses, .format = format, .most = most};
  if (luaL_newmetatable(L, class_name)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  const int size = (int)sizeof self->z;
  int status = compresses ? libz.deflateInit2_(&self->z, level, Z_DEFLATED, format, format == SHORT_RAW ? 5 : 8,
                                               Z_DEFAULT_STRATEGY, ZLIB_VERSION, size)
                          : libz.inflateInit2_(&self->z, format, ZLIB_VERSION, size);
  if (status != Z_OK) out_of_memory(L);
  self->is_open = 1;
  return self;
}

// Compressing ---------------------------------------------------------------------------------------------------------

// Appends the output for the input of `z`. `flush` is zlib's.
static int deflate_all(z_stream *z, linux_bytes *to, const char *bytes, size_t length, int flush) {
  do {
    size_t count = length < MOST_IN ? length : MOST_IN;
    z->next_in = (Bytef *)bytes, z->avail_in = (uInt)count;
    bytes += count, length -= count;
    do {
      if (!linux_reserve(to, count / 4 + 256)) return 0;
      size_t room = to->capacity - to->length < MOST_IN ? to->capacity - to->length : MOST_IN;
      z->next_out = (Bytef *)to->bytes + to->length, z->avail_out = (uInt)room;
      libz.deflate(z, length ? Z_NO_FLUSH : flush);
      to->length += room - z->avail_out;
    } while (z->avail_out == 0);
  } while (length);
  return 1;
}

// compress(data, format, level) -> bytes, or nil, problem, code
static int compress_text(lua_State *L) {
  size_t length;
  const char *data = codecs_check_string(L, 1, "zlib.compress", &length);
  int refused = use_zlib(L);
  if (refused) return refused;
  stage *self = push_stage(L, 1, (int)lua_tointeger(L, 2), (int)lua_tointeger(L, 3), 0);
  if (!deflate_all(&self->z, &self->output, data, length, Z_FINISH)) return out_of_memory(L);
  lua_pushlstring(L, self->output.bytes, self->output.length);
  close_stage(self);
  return 1;
}

// Decompressing -------------------------------------------------------------------------------------------------------

// The position of the next byte in all of the input, from 1.
static uint64_t place(const stage *self, const char *start) {
  return self->taken + (uint64_t)((const char *)self->z.next_in - start) + 1;
}

// Decompresses the input until it is used up, or until there are `enough` bytes of output. Returns 0 for bad input.
static int inflate_some(lua_State *L, stage *self, const char *bytes, size_t length, size_t enough, size_t *used) {
  z_stream *z = &self->z;
  z->next_in = (Bytef *)bytes, z->avail_in = (uInt)(length < MOST_IN ? length : MOST_IN);
  int is_full = 1;
  while (self->output.length < enough && (z->avail_in || (is_full && self->has_begun && !self->has_ended))) {
    if (self->has_ended) {
      if ((self->format != GZIP && self->format != ANY) || *z->next_in != 0x1f)
        return fail(self, "EBADMSG", "there is data after the end, at byte %llu", place(self, bytes));
      libz.inflateReset(z);
      self->has_ended = 0;
    }
    // After a member of a gzip file, only further members may follow.
    if (!self->has_begun && self->format == ANY && *z->next_in != 0x1f) self->format = ZLIB;
    self->has_begun = 1;
    size_t most = self->most - self->made + 1, wanted = z->avail_in * 4 + 1024;
    if (wanted > enough - self->output.length) wanted = enough - self->output.length;
    if (wanted > most) wanted = most;
    if (wanted > MOST_IN) wanted = MOST_IN;
    if (!linux_reserve(&self->output, wanted)) out_of_memory(L);
    z->next_out = (Bytef *)self->output.bytes + self->output.length, z->avail_out = (uInt)wanted;
    int status = libz.inflate(z, Z_NO_FLUSH);
    self->output.length += wanted - z->avail_out, self->made += wanted - z->avail_out;
    is_full = z->avail_out == 0;
    if (self->made > self->most) return fail(self, "EMSGSIZE", "more than %llu bytes", self->most);
    if (status == Z_MEM_ERROR) out_of_memory(L);
    if (status == Z_STREAM_END) self->has_ended = 1;
    else if (status == Z_NEED_DICT)
      return fail(self, "EBADMSG", "a dictionary is needed at byte %llu", place(self, bytes));
    else if (status != Z_OK && status != Z_BUF_ERROR)
      return fail(self, "EBADMSG", "damaged at byte %llu", place(self, bytes));
  }
  *used = (size_t)((char *)z->next_in - bytes);
  return 1;
}

// Whether the compressed data ends where the input ends.
static int check_end(stage *self) {
  if (self->has_ended) return 1;
  return fail(self, "EOF", "cut off after byte %llu", self->taken);
}

static int refuse(lua_State *L, const stage *self) { return codecs_refuse(L, self->code, "%s", self->problem); }

static int inflate_all(lua_State *L, stage *self, const char *data, size_t length) {
  size_t used = 0;
  do {
    if (!inflate_some(L, self, data, length, SIZE_MAX, &used)) return 0;
    data += used, length -= used, self->taken += used;
  } while (length);
  return 1;
}

// decompress(data, format, max) -> bytes, or nil, problem, code
static int decompress_text(lua_State *L) {
  size_t length;
  const char *data = codecs_check_string(L, 1, "zlib.decompress", &length);
  int refused = use_zlib(L);
  if (refused) return refused;
  stage *self = push_stage(L, 0, (int)lua_tointeger(L, 2), 0, (size_t)lua_tointeger(L, 3));
  int is_good = inflate_all(L, self, data, length) && check_end(self);
  if (is_good) lua_pushlstring(L, self->output.bytes, self->output.length);
  close_stage(self);
  return is_good ? 1 : refuse(L, self);
}

// Stages --------------------------------------------------------------------------------------------------------------

// Decompresses the text at index 1 after the rest of earlier input. Returns the output, and true if there is more.
static int step_inflation(lua_State *L, stage *self, int is_end) {
  lua_settop(L, 1);
  if (is_end) lua_pushliteral(L, ""), lua_replace(L, 1);
  if (lua_getiuservalue(L, lua_upvalueindex(2), 1) == LUA_TSTRING) {
    lua_insert(L, 1);
    lua_concat(L, 2);
  }
  lua_settop(L, 1);
  size_t length, used = 0;
  const char *bytes = lua_tolstring(L, 1, &length);
  if (is_end) {
    if (!inflate_all(L, self, bytes, length) || !check_end(self)) return 0;
    used = length;
  } else {
    if (!inflate_some(L, self, bytes, length, PIECE, &used)) return 0;
    self->taken += used;
  }
  int has_more = used < length || self->output.length >= PIECE;
  if (used < length) lua_pushlstring(L, bytes + used, length - used);
  else lua_pushnil(L);
  lua_setiuservalue(L, lua_upvalueindex(2), 1);
  lua_pushlstring(L, self->output.bytes, self->output.length);
  lua_pushboolean(L, has_more && !is_end);
  return 2;
}

// A stage: (bytes) -> bytes, or () -> the rest; or nil, problem, code
static int step(lua_State *L) {
  stage *self = lua_touserdata(L, lua_upvalueindex(2));
  const char *name = self->compresses ? "zlib.compressor's stage" : "zlib.decompressor's stage";
  int is_end = lua_isnoneornil(L, 1), count = 1;
  if (!is_end) codecs_check_string(L, 1, name, NULL);
  if (self->code) return refuse(L, self);
  if (self->is_over) return is_end ? 0 : codecs_raise(L, "%s: it has ended (make another one)", name);
  self->output.length = 0;
  if (self->compresses) {
    size_t length = 0;
    const char *bytes = is_end ? "" : lua_tolstring(L, 1, &length);
    if ((is_end || length) && !deflate_all(&self->z, &self->output, bytes, length, is_end ? Z_FINISH : Z_NO_FLUSH))
      return out_of_memory(L);
    lua_pushlstring(L, self->output.bytes, self->output.length);
  } else {
    count = step_inflation(L, self, is_end);
  }
  self->is_over = is_end;
  if (is_end || !count) close_stage(self);
  // Free a large output buffer between calls: a few bytes can decompress to many, and the next input may come much
  // later.
  if (self->output.capacity > 65536) free(self->output.bytes), self->output = (linux_bytes){0};
  return count ? count : refuse(L, self);
}

// stage(compresses, format, level, max) -> stage, or nil, problem, code
static int make_stage(lua_State *L) {
  int refused = use_zlib(L);
  if (refused) return refused;
  lua_Integer most = luaL_optinteger(L, 4, LUA_MAXINTEGER);
  // The collector does not see libz's memory: dropped stages would pile up.
  lua_gc(L, LUA_GCSTEP, lua_toboolean(L, 1) ? 260 : 44);
  lua_pushvalue(L, lua_upvalueindex(1));
  push_stage(L, lua_toboolean(L, 1), (int)lua_tointeger(L, 2), (int)lua_tointeger(L, 3), (size_t)most);
  lua_pushcclosure(L, step, 2);
  return 1;
}

// HTTP answers --------------------------------------------------------------------------------------------------------

// The state that an answer keeps between its pieces. All answers of a Lua state share one compressor for each level.
// The compressor starts each piece with the end of the text before it. If each answer had its own compressor, thousands
// of slow answers would need 256 kB each.
typedef struct pieces {
  uLong sum, total;
  int has_begun;
  size_t tail_length;
  char tail[4096];
} pieces;

// Pushes the shared compressor of a level. The second upvalue has the used compressors by level, followed by those for
// short texts, which stay in the processor's cache.
static stage *push_shared(lua_State *L, lua_Integer level, int is_short) {
  lua_Integer key = level + (is_short ? 11 : 1);
  if (lua_rawgeti(L, lua_upvalueindex(2), key) != LUA_TNIL) return lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (use_zlib(L)) lua_pop(L, 1), lua_error(L);
  stage *made = push_stage(L, 1, is_short ? SHORT_RAW : RAW, (int)level, 0);
  lua_pushvalue(L, -1);
  lua_rawseti(L, lua_upvalueindex(2), key);
  return made;
}

static void keep_tail(pieces *self, const char *text, size_t length) {
  size_t kept = length < sizeof self->tail ? length : sizeof self->tail, before = sizeof self->tail - kept;
  if (before > self->tail_length) before = self->tail_length;
  memmove(self->tail, self->tail + self->tail_length - before, before);
  memcpy(self->tail + before, text + length - kept, kept);
  self->tail_length = before + kept;
}

static void put_number(linux_bytes *to, uLong number) {
  for (int i = 0; i < 4; i++) to->bytes[to->length++] = (char)(number >> 8 * i);
}

// Pushes the gzip of a piece, up to its last byte.
static int push_piece(lua_State *L, pieces *self, stage *work, int is_last) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  linux_bytes *to = &work->output;
  to->length = 0;
  if (!linux_reserve(to, length / 2 + 64)) return out_of_memory(L);
  if (!self->has_begun) {
    memcpy(to->bytes, "\x1f\x8b\x08\0\0\0\0\0\x04\x03", 10);
    to->length = 10;
    self->sum = libz.crc32(0, NULL, 0);
    self->has_begun = 1;
  }
  libz.deflateReset(&work->z);
  if (self->tail_length) libz.deflateSetDictionary(&work->z, (Bytef *)self->tail, (uInt)self->tail_length);
  if (!deflate_all(&work->z, to, text, length, is_last ? Z_FINISH : Z_SYNC_FLUSH)) return out_of_memory(L);
  self->total += length;
  for (size_t at = 0; at < length; at += MOST_IN)
    self->sum = libz.crc32(self->sum, (Bytef *)text + at, (uInt)(length - at < MOST_IN ? length - at : MOST_IN));
  if (is_last) {
    if (!linux_reserve(to, 8)) return out_of_memory(L);
    put_number(to, self->sum);
    put_number(to, self->total);
  } else {
    keep_tail(self, text, length);
  }
  lua_pushlstring(L, to->bytes, to->length);
  if (to->capacity > 1 << 18) free(to->bytes), *to = (linux_bytes){0};
  return 1;
}

// gzip(text, level) -> bytes
static int gzip(lua_State *L) {
  pieces self;
  self.has_begun = 0, self.tail_length = 0, self.total = 0;
  return push_piece(L, &self, push_shared(L, lua_tointeger(L, 2), lua_rawlen(L, 1) <= SHORT), 1);
}

// (text, is_last) -> bytes that a client can decompress up to the end of the text
static int write_piece(lua_State *L) {
  return push_piece(L, lua_touserdata(L, lua_upvalueindex(2)), lua_touserdata(L, lua_upvalueindex(3)),
                    lua_toboolean(L, 2));
}

// pieces(level) -> the function write_piece of one answer
static int make_pieces(lua_State *L) {
  lua_Integer level = lua_tointeger(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  pieces *self = lua_newuserdatauv(L, sizeof *self, 0);
  self->has_begun = 0, self->tail_length = 0, self->total = 0;
  push_shared(L, level, 0);
  lua_pushcclosure(L, write_piece, 3);
  return 1;
}

// is_there() -> true, or nil, problem, code
static int is_there(lua_State *L) {
  int refused = use_zlib(L);
  return refused ? refused : (lua_pushboolean(L, 1), 1);
}

int zlib_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"compress", compress_text},
                                       {"decompress", decompress_text},
                                       {"stage", make_stage},
                                       {"is_there", is_there},
                                       {NULL, NULL}};
  static const struct {
    const char *name;
    int code;
  } formats[] = {{"gzip", GZIP}, {"zlib", ZLIB}, {"raw", RAW}, {"any", ANY}};
  codecs_push_library(L, functions);
  static const luaL_Reg sharing[] = {{"gzip", gzip}, {"pieces", make_pieces}, {NULL, NULL}};
  lua_pushvalue(L, 1);
  lua_newtable(L);
  luaL_setfuncs(L, sharing, 2);
  lua_newtable(L);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    lua_pushinteger(L, formats[i].code);
    lua_setfield(L, -2, formats[i].name);
  }
  lua_setfield(L, -2, "formats");
  return 1;
}
