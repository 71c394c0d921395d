// A transfer of libcurl: its options, and its bytes in both directions.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "transfers.h"

// Callbacks of curl ---------------------------------------------------------------------------------------------------

static int fail(lua_transfer *transfer, CURLcode code, const char *text, const char *what) {
  transfer->is_over = 1;
  transfer->code = code;
  snprintf(transfer->problem, sizeof transfer->problem, text, what);
  lua_curl_changed(transfer);
  return 0;
}

static int open_decoder(lua_transfer *transfer) {
  char codings[100];
  lua_head_codings(&transfer->head, codings, sizeof codings);
  if (!codings[0]) {
    transfer->decodes = 0;
    return 1;
  }
  transfer->decoder = linux_open_decoder(codings, strlen(codings));
  return transfer->decoder ||
         fail(transfer, CURLE_BAD_CONTENT_ENCODING,
              "the body's encoding '%s' is neither gzip nor deflate: 'decompress = false' returns it as it is",
              codings);
}

// Decodes the bytes that have arrived, up to the limit. Returns 0 if the transfer has failed.
static int decode(lua_transfer *transfer) {
  size_t before = transfer->input.length, left = transfer->max_body - transfer->received;
  // One byte above the maximum shows that the body is too large.
  size_t limit = transfer->high_water - before > left ? before + left + 1 : transfer->high_water;
  int status = linux_decode(transfer->decoder, &transfer->input, limit);
  transfer->received += transfer->input.length - before;
  transfer->has_more = status == 2;
  if (transfer->received > transfer->max_body) {
    transfer->is_too_large = 1;
    return fail(transfer, CURLE_WRITE_ERROR, "%s", "too large");
  }
  if (status < 0) return fail(transfer, CURLE_OUT_OF_MEMORY, "%s", "not enough memory");
  return status ||
         fail(transfer, CURLE_BAD_CONTENT_ENCODING, "%s", "the body is not encoded as its Content-Encoding says");
}

void lua_curl_check_end(lua_transfer *transfer) {
  if (!transfer->is_over || transfer->code != CURLE_OK) return;
  if (transfer->unended)
    fail(transfer, CURLE_SSL_SHUTDOWN_FAILED, "%s", "the connection was cut: it ended without the TLS close alert");
  // curl treats an incomplete head as a complete one.
  else if (!transfer->head_is_complete && !transfer->leads_on)
    fail(transfer, CURLE_PARTIAL_FILE, "%s", "the answer ended in the middle of its head");
  if (transfer->code != CURLE_OK || !transfer->decoder || transfer->has_more) return;
  if (!linux_decoder_is_whole(transfer->decoder))
    fail(transfer, CURLE_PARTIAL_FILE, "%s", "the body ended in the middle of its encoded data");
}

static size_t on_body(char *bytes, size_t size, size_t count, void *data) {
  lua_transfer *transfer = data;
  size_t length = size * count;
  if (transfer->leads_on) return length;
  if (transfer->decodes && !transfer->decoder && !open_decoder(transfer)) return 0;
  if (transfer->decoder) {
    if (transfer->input.length >= transfer->high_water) {
      transfer->is_paused = 1;
      return CURL_WRITEFUNC_PAUSE;
    }
    if (!linux_feed_decoder(transfer->decoder, bytes, length) || !decode(transfer)) return 0;
    transfer->head_is_complete = 1;
    lua_curl_changed(transfer);
    return length;
  }
  if (transfer->received + length > transfer->max_body) {
    transfer->is_too_large = 1;
    return 0;
  }
  if (transfer->input.length >= transfer->high_water) {
    transfer->is_paused = 1;
    return CURL_WRITEFUNC_PAUSE;
  }
  if (!lua_curl_append(&transfer->input, bytes, length)) return 0;
  transfer->received += length;
  if (!transfer->head_is_complete) transfer->head_is_complete = 1;
  lua_curl_changed(transfer);
  return length;
}

// Checks a line of a head for errors that libcurl accepts and other clients read differently: a bare CR, after which
// libcurl drops the rest, a bare LF, a blank before the colon, and a second length. Returns 0 if the transfer has
// failed.
static int check_line(lua_transfer *transfer, const char *bytes, size_t length, int is_status) {
  int has_end = length && bytes[length - 1] == '\n', has_cr = 0;
  length -= (size_t)has_end;
  if (length && bytes[length - 1] == '\r') length--, has_cr = 1;
  if (memchr(bytes, '\r', length))
    return fail(transfer, CURLE_WEIRD_SERVER_REPLY, "%s", "the answer has a CR without LF in its head");
  if (has_end && !has_cr)
    return fail(transfer, CURLE_WEIRD_SERVER_REPLY, "%s", "the answer has a LF without CR in its head");
  if (!transfer->is_in_head || is_status || length == 0) return 1;
  if (bytes[0] == ' ' || bytes[0] == '\t') {
    if (!transfer->length_may_go_on) return 1;
    return fail(transfer, CURLE_WEIRD_SERVER_REPLY, "%s", "the answer's Content-Length continues on a second line");
  }
  const char *colon = memchr(bytes, ':', length);
  if (!colon || !http_is_token(bytes, (size_t)(colon - bytes)))
    return fail(transfer, CURLE_WEIRD_SERVER_REPLY, "%s", "the answer has a field without a valid name");
  http_span name = {bytes, (size_t)(colon - bytes)}, value = {colon + 1, length - name.length - 1};
  transfer->length_may_go_on = http_is(name, "content-length") || http_is(name, "transfer-encoding");
  return !transfer->length_may_go_on || http_note_answer_field(&transfer->length, name, http_trim(value)) ||
         fail(transfer, CURLE_WEIRD_SERVER_REPLY, "%s", transfer->length.problem);
}

// Called with each line of a head. Heads before that of the last answer (100, redirects) are only counted.
static size_t on_head(char *bytes, size_t size, size_t count, void *data) {
  lua_transfer *transfer = data;
  size_t length = size * count;
  int is_status = length > 5 && memcmp(bytes, "HTTP/", 5) == 0;
  if (is_status) {
    transfer->head.length = 0;
    transfer->is_in_head = !transfer->head_is_complete && !transfer->leads_on;
    transfer->length = (http_answer_length){0};
  }
  if (!check_line(transfer, bytes, length, is_status)) return 0;
  if (transfer->head.length + length > 256 * 1024) return 0;
  if (!lua_curl_append(&transfer->head, bytes, length)) return 0;
  if (length > 2 || (length == 2 && bytes[0] != '\r')) return length;
  // The empty line after the head, or after the trailer.
  long status = 0;
  transfer->is_in_head = 0;
  if (transfer->head_is_complete || transfer->leads_on) return length;
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  transfer->leads_on = transfer->follows && lua_head_leads_on(status, &transfer->head);
  if (status < 200) return length;
  lua_curl_had_head(transfer);
  transfer->head_is_complete = !transfer->leads_on;
  transfer->upload_is_refused = status >= 300;
  if (transfer->head_is_complete && !transfer->is_head && lua_head_ends_with_connection(status, &transfer->head))
    lua_curl_expect_end(transfer);
  lua_curl_changed(transfer);
  return length;
}

static size_t on_upload(char *to, size_t size, size_t count, void *data) {
  lua_transfer *transfer = data;
  if (transfer->upload_failed) return CURL_READFUNC_ABORT;
  size_t left = transfer->upload.length - transfer->taken;
  if (left == 0) {
    if (transfer->upload_ended) return 0;
    transfer->upload_is_paused = 1;
    lua_curl_changed(transfer);
    return CURL_READFUNC_PAUSE;
  }
  size_t length = left < size * count ? left : size * count;
  memcpy(to, transfer->upload.bytes + transfer->taken, length);
  transfer->taken += length;
  if (transfer->taken == transfer->upload.length) {
    transfer->taken = transfer->upload.length = 0;
    lua_curl_changed(transfer);
  }
  return length;
}

// curl could make the socket itself, but would not report why it fails.
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)purpose;
  lua_transfer *transfer = data;
  // A kept connection has failed, and curl tries again. libcurl keeps only the text of the first error.
  static const char *const lost[] = {"Recv failure", "Send failure", "OpenSSL SSL_"};
  for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
    transfer->error_is_old |= strncmp(transfer->error, lost[i], strlen(lost[i])) == 0;
  int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  // A machine may lack one of the families.
  if (fd < 0 && errno != EAFNOSUPPORT) transfer->socket_error = errno;
  return fd < 0 ? CURL_SOCKET_BAD : fd;
}

// Options -------------------------------------------------------------------------------------------------------------

typedef struct option {
  const char *name;
  CURLoption option;
  char type;  // s: text, i: integer, m: seconds as milliseconds, b: boolean, p: post fields, l: list of texts
} option;

static const option options[] = {{"url", CURLOPT_URL, 's'},
                                 {"method", CURLOPT_CUSTOMREQUEST, 's'},
                                 {"body", CURLOPT_POSTFIELDS, 'p'},
                                 {"is_post", CURLOPT_POST, 'b'},
                                 {"is_head", CURLOPT_NOBODY, 'b'},
                                 {"is_upload", CURLOPT_UPLOAD, 'b'},
                                 {"upload_size", CURLOPT_INFILESIZE_LARGE, 'o'},
                                 {"headers", CURLOPT_HTTPHEADER, 'l'},
                                 {"timeout", CURLOPT_TIMEOUT_MS, 'm'},
                                 {"connect_timeout", CURLOPT_CONNECTTIMEOUT_MS, 'm'},
                                 {"idle_timeout", CURLOPT_LOW_SPEED_TIME, 'i'},
                                 {"idle_bytes", CURLOPT_LOW_SPEED_LIMIT, 'i'},
                                 {"proxy", CURLOPT_PROXY, 's'},
                                 {"no_proxy", CURLOPT_NOPROXY, 's'},
                                 {"unix", CURLOPT_UNIX_SOCKET_PATH, 's'},
                                 {"abstract", CURLOPT_ABSTRACT_UNIX_SOCKET, 's'},
                                 {"encoding", CURLOPT_ACCEPT_ENCODING, 's'},
                                 {"verify", CURLOPT_SSL_VERIFYPEER, 'b'},
                                 {"verify_host", CURLOPT_SSL_VERIFYHOST, 'i'},
                                 {"ca_file", CURLOPT_CAINFO, 's'},
                                 {"ca_directory", CURLOPT_CAPATH, 's'},
                                 {"certificate", CURLOPT_SSLCERT, 's'},
                                 {"key", CURLOPT_SSLKEY, 's'},
                                 {"min_version", CURLOPT_SSLVERSION, 'i'},
                                 {"version", CURLOPT_HTTP_VERSION, 'i'},
                                 {"user", CURLOPT_USERNAME, 's'},
                                 {"password", CURLOPT_PASSWORD, 's'},
                                 {"agent", CURLOPT_USERAGENT, 's'},
                                 {"cookies", CURLOPT_COOKIEFILE, 's'},
                                 {"resolve", CURLOPT_RESOLVE, 'l'},
                                 {"interface", CURLOPT_INTERFACE, 's'},
                                 {"verbose", CURLOPT_VERBOSE, 'b'}};

// Reads a list of texts, which the transfer frees.
static struct curl_slist *read_list(lua_State *L, lua_transfer *transfer) {
  int place = 0;
  while (place < 4 && transfer->lists[place]) place++;
  if (place == 4) luaL_error(L, "http: too many lists");
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    struct curl_slist *longer = lua_curl.curl_slist_append(transfer->lists[place], luaL_checkstring(L, -1));
    lua_pop(L, 1);
    if (!longer) luaL_error(L, "not enough memory");
    transfer->lists[place] = longer;
  }
  return transfer->lists[place];
}

static void configure(lua_State *L, lua_transfer *transfer, const option *option) {
  CURL *easy = transfer->easy;
  CURLcode code = CURLE_OK;
  size_t length;
  switch (option->type) {
    case 's': code = lua_curl.curl_easy_setopt(easy, option->option, luaL_checkstring(L, -1)); break;
    case 'i': code = lua_curl.curl_easy_setopt(easy, option->option, (long)luaL_checkinteger(L, -1)); break;
    case 'b': code = lua_curl.curl_easy_setopt(easy, option->option, (long)lua_toboolean(L, -1)); break;
    case 'o': code = lua_curl.curl_easy_setopt(easy, option->option, (curl_off_t)luaL_checkinteger(L, -1)); break;
    case 'm': {
      lua_Number seconds = luaL_checknumber(L, -1);
      long milliseconds = seconds >= 2147483 ? 2147483647 : seconds > 0.001 ? (long)(seconds * 1000) : 1;
      code = lua_curl.curl_easy_setopt(easy, option->option, milliseconds);
      break;
    }
    case 'l': code = lua_curl.curl_easy_setopt(easy, option->option, read_list(L, transfer)); break;
    case 'p': {
      // The text stays in the table of options, which the transfer keeps.
      const char *body = luaL_checklstring(L, -1, &length);
      lua_curl.curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
      code = lua_curl.curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
      break;
    }
  }
  if (code != CURLE_OK)
    luaL_error(L, "http: libcurl does not take the option '%s' (%s)", option->name, lua_curl.curl_easy_strerror(code));
}

void lua_curl_configure(lua_State *L, lua_transfer *transfer, int index) {
  CURL *easy = transfer->easy;
  lua_curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  // A thread of curl's resolver that waits for a name server is left behind when the request ends: waiting for it would
  // block the loop. libcurl has this option since 7.87; older ones refuse it, and wait.
  lua_curl.curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  lua_curl.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
  lua_curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  lua_curl.curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  lua_curl.curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
  lua_curl.curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
  lua_curl.curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_upload);
  lua_curl.curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
  lua_curl.curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  lua_curl.curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
  lua_curl.curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, lua_curl_close_later);
  lua_curl.curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfer->multi);
  lua_curl.curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  lua_curl.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  lua_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  lua_curl.curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 60L);
  lua_curl_note_certificates(transfer);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (lua_getfield(L, index, options[i].name) != LUA_TNIL) configure(L, transfer, &options[i]);
    lua_pop(L, 1);
  }
  lua_getfield(L, index, "high_water");
  transfer->high_water = (size_t)luaL_optinteger(L, -1, 262144);
  lua_getfield(L, index, "max_body");
  transfer->max_body = (size_t)luaL_checkinteger(L, -1);
  lua_getfield(L, index, "decodes");
  transfer->decodes = lua_toboolean(L, -1);
  lua_getfield(L, index, "follows");
  transfer->follows = lua_toboolean(L, -1);
  lua_getfield(L, index, "is_head");
  transfer->is_head = lua_toboolean(L, -1);
  lua_pop(L, 5);
}

// Methods -------------------------------------------------------------------------------------------------------------

static lua_transfer *check_transfer(lua_State *L) { return luaL_checkudata(L, 1, TRANSFER); }

// transfer:take([max]) -> bytes, "" if there are none now
static int take(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  size_t count = transfer->input.length, max = (size_t)luaL_optinteger(L, 2, -1);
  if (count > max) count = max;
  lua_pushlstring(L, transfer->input.bytes, count);
  if (count < transfer->input.length)
    memmove(transfer->input.bytes, transfer->input.bytes + count, transfer->input.length - count);
  transfer->input.length -= count;
  if (transfer->has_more && decode(transfer)) lua_curl_check_end(transfer);
  if (transfer->input.length == 0 && transfer->input.capacity > 65536 && !transfer->is_paused) {
    free(transfer->input.bytes);
    transfer->input = (linux_bytes){0};
  }
  if (transfer->is_paused && transfer->easy && transfer->input.length < transfer->high_water / 2 + 1) {
    transfer->is_paused = 0;
    lua_curl.curl_easy_pause(transfer->easy, transfer->upload_is_paused ? CURLPAUSE_SEND : CURLPAUSE_CONT);
  }
  return 1;
}

// transfer:send(bytes) -> bytes that wait; nil: the end; false: give up
static int send_bytes(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  size_t length = 0;
  if (lua_isnil(L, 2)) transfer->upload_ended = 1;
  else if (lua_isboolean(L, 2)) transfer->upload_failed = 1;
  else {
    const char *bytes = luaL_checklstring(L, 2, &length);
    if (transfer->taken > 0) {
      memmove(transfer->upload.bytes, transfer->upload.bytes + transfer->taken,
              transfer->upload.length - transfer->taken);
      transfer->upload.length -= transfer->taken;
      transfer->taken = 0;
    }
    if (!lua_curl_append(&transfer->upload, bytes, length)) return luaL_error(L, "not enough memory");
  }
  lua_pushinteger(L, (lua_Integer)(transfer->upload.length - transfer->taken));
  lua_curl_resume_upload(transfer);
  return 1;
}

// transfer:state() -> whether the head has arrived, whether all is over, body bytes that wait, upload bytes that wait
static int state(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  lua_pushboolean(L, transfer->head_is_complete || (transfer->is_over && transfer->code == CURLE_OK));
  lua_pushboolean(L, transfer->is_over);
  lua_pushinteger(L, (lua_Integer)transfer->input.length);
  lua_pushinteger(L, (lua_Integer)(transfer->upload.length - transfer->taken));
  return 4;
}

// transfer:failure() -> nil, or curl's code, its message, the system's error and its text, too large, the server's
// certificate
static int failure(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  if (!transfer->is_over || transfer->code == CURLE_OK) return 0;
  long number = transfer->system_error;
  // Reports the error that has kept this module from making a socket: curl's own error may be that of another address,
  // which has refused the connection.
  if (transfer->code == CURLE_COULDNT_CONNECT && transfer->socket_error) number = transfer->socket_error;
  lua_pushinteger(L, transfer->code);
  const char *text = transfer->problem[0] ? transfer->problem : transfer->error_is_old ? "" : transfer->error;
  lua_pushstring(L, text[0] ? text : lua_curl.curl_easy_strerror(transfer->code));
  if (number) lua_pushstring(L, strerrorname_np((int)number)), lua_pushstring(L, strerror((int)number));
  else lua_pushnil(L), lua_pushnil(L);
  lua_pushboolean(L, transfer->is_too_large);
  lua_pushstring(L, transfer->certificate[0] ? transfer->certificate : NULL);
  return 6;
}

// transfer:refused_length() -> the value of the Content-Length for which libcurl has refused the answer, or nil
static int refused_length(lua_State *L) { return lua_pushstring(L, check_transfer(L)->refused_length), 1; }

// transfer:leads_to() -> the URL, status, seconds; nothing unless the answer is a redirect to be followed
static int leads_to(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  long status = 0;
  char *url = NULL;
  double seconds = 0;
  if (!transfer->leads_on || !transfer->is_over || transfer->code != CURLE_OK || !transfer->easy) return 0;
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &url);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME, &seconds);
  lua_pushstring(L, url);
  lua_pushinteger(L, status);
  lua_pushnumber(L, seconds);
  return 3;
}

// transfer:answer() -> status, head, url, version as curl's number, seconds, address
static int answer(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  if (!transfer->easy) return 0;
  long status = 0, version = 0;
  char *url = NULL, *address = NULL;
  double seconds = 0;
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &version);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_URL, &url);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_IP, &address);
  lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME, &seconds);
  lua_pushinteger(L, status);
  lua_pushlstring(L, transfer->head.bytes ? transfer->head.bytes : "", transfer->head.length);
  lua_pushstring(L, url);
  lua_pushinteger(L, version);
  lua_pushnumber(L, seconds);
  lua_pushstring(L, address);
  return 6;
}

static int end(lua_State *L) {
  lua_curl_end(check_transfer(L));
  return 0;
}

int lua_curl_collect_transfer(lua_State *L) {
  lua_transfer *transfer = check_transfer(L);
  // If the multi was collected before, it has ended this transfer already.
  lua_curl_end(transfer);
  free(transfer->head.bytes);
  free(transfer->input.bytes);
  free(transfer->refused_length);
  linux_close_decoder(transfer->decoder);
  *transfer = (lua_transfer){0};
  return 0;
}

const luaL_Reg lua_curl_transfer_methods[] = {
    {"take", take},     {"send", send_bytes},   {"state", state}, {"failure", failure},
    {"answer", answer}, {"leads_to", leads_to}, {"finish", end},  {"refused_length", refused_length},
    {NULL, NULL}};
