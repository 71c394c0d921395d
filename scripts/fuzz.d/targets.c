// Fuzz targets for the parsers in C: $FUZZ_TARGET selects the one that gets the bytes. Besides memory errors, each
// target looks for differences: between a text that comes in pieces and the whole text, or between a value and the
// value that is read back after it was written.
#include <CJSON.h>
#include <CLuaCodecs.h>
#include <HTTP.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "target: %s does not hold\n", #x), abort()))

static lua_State *L;

// A copy that ends where the bytes end: reading one more is an error.
static char *copy(const uint8_t *bytes, size_t length) {
  char *to = malloc(length ? length : 1);
  memcpy(to, bytes, length);
  return to;
}

static void head(const char *bytes, size_t length) {
  for (int is_response = 0; is_response < 2; is_response++) {
    http_head found = {0}, part = {0};
    int result = http_read_head(&found, bytes, length, is_response, 16384, 100);
    if (result < 0) CHECK(found.problem);
    if (result <= 0) continue;
    CHECK(found.length <= length);
    char *exact = copy((const uint8_t *)bytes, found.length);
    CHECK(http_read_head(&part, exact, found.length, is_response, 16384, 100) == 1);
    CHECK(part.content_length == found.content_length && part.is_chunked == found.is_chunked);
    http_span rest = http_fields(exact, found.length);
    http_field field;
    http_answer_length answer = {0};
    while (http_next_field(&rest, &field)) {
      CHECK(http_is_value(field.value.start, field.value.length));
      http_note_answer_field(&answer, field.name, field.value);
      http_list_has(field.value, "chunked");
      http_read_date(field.value.start, field.value.length);
    }
    free(exact);
    char *path = malloc(found.target.length + 2);
    int has_slashes;
    http_clean_path(path, found.target.start, found.target.length, &has_slashes);
    http_unescape(path, found.target.start, found.target.length, 1);
    free(path);
  }
}

static size_t chunks_of(const char *bytes, size_t length, size_t step, char *to, int *is_done) {
  http_chunks state = {0};
  size_t at = 0, size = 0;
  *is_done = 0;
  while (at < length && !*is_done) {
    http_span data = {0};
    size_t left = length - at, most = left < step ? left : step;
    size_t taken = http_read_chunk(&state, bytes + at, most, &data, is_done);
    CHECK(taken <= most && data.length <= most && (taken || *is_done));
    memcpy(to + size, data.start ? data.start : bytes, data.length);
    size += data.length;
    at += taken;
  }
  return size;
}

static void chunks(const char *bytes, size_t length) {
  char *whole = malloc(length + 1), *pieces = malloc(length + 1);
  int first, second;
  size_t size = chunks_of(bytes, length, length, whole, &first);
  CHECK(chunks_of(bytes, length, 1, pieces, &second) == size && first == second && !memcmp(whole, pieces, size));
  free(whole);
  free(pieces);
}

static void frames(const char *bytes, size_t length) {
  http_frame frame = {0};
  const char *problem = NULL;
  int result = http_read_frame(&frame, bytes, length, &problem);
  if (result < 0) CHECK(problem);
  if (result > 0) {
    char text[14];
    CHECK(frame.head_length <= length && frame.head_length <= 14);
    const unsigned char *mask = frame.is_masked ? frame.mask : NULL;
    CHECK(http_write_frame(text, frame.code, frame.is_compressed, frame.length, mask) <= 14);
  }
  uint32_t whole = 0, pieces = 0;
  int is_text = http_check_utf8(&whole, bytes, length), goes_on = 1;
  for (size_t i = 0; i < length && goes_on; i++) goes_on = http_check_utf8(&pieces, bytes + i, 1);
  CHECK(is_text == goes_on && (!is_text || whole == pieces));
  char *masked = copy((const uint8_t *)bytes, length);
  http_mask(masked, length, (const unsigned char *)"abcd", 0);
  for (size_t i = 0; i < length; i += 7) {
    http_mask(masked + i, length - i < 7 ? length - i : 7, (const unsigned char *)"abcd", i);
  }
  CHECK(!memcmp(masked, bytes, length));
  free(masked);
}

// A Lua chunk that returns a function for each parser: it checks the parser's properties for the bytes `data`.
static const char LUA[] =
    "local json, url, redis, encoding = ...\n"
    "local function answers(data, step)\n"
    "  local parser, list = redis.parser(65536), {}\n"
    "  for i = 1, #data, step do\n"
    "    parser:feed(data:sub(i, i + step - 1))\n"
    "    repeat\n"
    "      local kind = parser:next()\n"
    "      list[#list + 1] = kind\n"
    "      if kind == false then return list end\n"
    "    until not kind\n"
    "  end\n"
    "  return list\n"
    "end\n"
    "return {\n"
    "  json = function(data)\n"
    "    local value, problem = json.decode(data)\n"
    "    if problem then return end\n"
    "    local text = json.encode(value)\n"
    "    local again = json.encode((json.decode(text)))\n"
    "    assert(#again == #text, text)\n"
    "  end,\n"
    "  url = function(data)\n"
    "    local first, second = data:match '^([^\\n]*)\\n?(.*)'\n"
    "    local u = url.parse(first)\n"
    "    if u then assert(url.parse(u.href or url.text_of(u)), first) end\n"
    "    url.join(first, second)\n"
    "    url.unescape(second, true)\n"
    "    assert(url.unescape(url.escape(data, false), false) == data)\n"
    "  end,\n"
    "  resp = function(data)\n"
    "    local whole, pieces = answers(data, #data + 1), answers(data, 1)\n"
    "    assert(#whole == #pieces and whole[#whole] == pieces[#pieces], #whole .. ' and ' .. #pieces)\n"
    "  end,\n"
    "  encoding = function(data)\n"
    "    for _, form in ipairs { 'hex', 'base64', 'base64url', 'base32' } do\n"
    "      encoding.decode(data, form)\n"
    "      assert(encoding.decode(encoding.encode(data, form), form) == data, form)\n"
    "    end\n"
    "  end,\n"
    "}\n";

static const char *target;

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  (void)count, (void)arguments;
  target = getenv("FUZZ_TARGET") ? getenv("FUZZ_TARGET") : "head";
  L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(luaL_loadstring(L, LUA) == 0);
  const lua_CFunction opens[] = {json_open, url_open, redis_open, encoding_open};
  for (int i = 0; i < 4; i++) {
    // A stand-in for the module runloop.misuse, and for metatables: all its functions raise.
    CHECK(luaL_dostring(L, "return setmetatable({}, { __index = function() return error end, __call = error })") == 0);
    if (opens[i] == json_open) lua_getglobal(L, "error"), lua_replace(L, -2);
    lua_pushcfunction(L, opens[i]);
    lua_insert(L, -2);
    lua_newtable(L);
    lua_call(L, 2, 1);
  }
  lua_call(L, 4, 1);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  char *data = copy(bytes, length);
  if (!strcmp(target, "head")) head(data, length);
  else if (!strcmp(target, "chunks")) chunks(data, length);
  else if (!strcmp(target, "frames")) frames(data, length);
  else {
    lua_getfield(L, 1, target);
    lua_pushlstring(L, data, length);
    if (lua_pcall(L, 1, 0, 0)) {
      fprintf(stderr, "target %s: %s\n", target, lua_tostring(L, -1));
      abort();
    }
  }
  free(data);
  return 0;
}
