// libcurl's multi-socket interface. The interface reports to Lua which descriptors to watch, and Lua reports their
// events. No callback of curl calls Lua, so that a script cannot enter curl from inside itself.
#include "transfers.h"

#include <errors.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "CLuaHTTP.h"

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket) {
  (void)easy, (void)socket;
  lua_curl_add_event(data, fd, what);
  return 0;
}

static int on_timer(CURLM *handle, long milliseconds, void *data) {
  (void)handle;
  lua_multi *multi = data;
  multi->timeout = milliseconds;
  multi->timeout_changed = 1;
  return 0;
}

static lua_multi *check_multi(lua_State *L) {
  lua_multi *multi = luaL_checkudata(L, 1, MULTI);
  if (!multi->multi) luaL_error(L, "http: the client is closed");
  return multi;
}

static void close_multi(lua_multi *multi) {
  if (!multi->multi) return;
  while (multi->transfers) {
    lua_transfer *transfer = multi->transfers;
    lua_curl_end(transfer);
    transfer->multi = NULL;
  }
  lua_curl.curl_multi_cleanup(multi->multi);
  if (multi->share) lua_curl.curl_share_cleanup(multi->share);
  // Lua has not closed these descriptors yet.
  for (size_t i = multi->event_taken; i < multi->event_count; i++)
    if (multi->events[i].what < 0) close(multi->events[i].fd);
  free(multi->events);
  *multi = (lua_multi){0};
}

static int collect_multi(lua_State *L) {
  close_multi(luaL_checkudata(L, 1, MULTI));
  return 0;
}

// multi(connections for each host, connections in all, keeps cookies)
static int make_multi(lua_State *L) {
  lua_multi *multi = lua_newuserdatauv(L, sizeof *multi, 0);
  *multi = (lua_multi){.timeout = -1};
  luaL_setmetatable(L, MULTI);
  multi->multi = lua_curl.curl_multi_init();
  if (!multi->multi) return luaL_error(L, "not enough memory");
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_SOCKETDATA, multi);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_TIMERDATA, multi);
  long per_host = (long)luaL_checkinteger(L, 1), in_all = (long)luaL_checkinteger(L, 2);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_MAX_HOST_CONNECTIONS, per_host);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, in_all);
  lua_curl.curl_multi_setopt(multi->multi, CURLMOPT_MAXCONNECTS, in_all > 0 ? in_all : 256L);
  if (lua_toboolean(L, 3)) {
    multi->share = lua_curl.curl_share_init();
    if (!multi->share) return luaL_error(L, "not enough memory");
    lua_curl.curl_share_setopt(multi->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
  }
  return 1;
}

// libcurl refuses a Content-Length that is not a number, without passing the line on. Keeps the bytes that libcurl is
// about to read, so that the error can name the value. With TLS the bytes are encrypted, so the error names no value.
static void peek(lua_multi *multi, int fd, int happened) {
  int readable = 1;
  multi->peeked_length = 0;
  if (multi->awaited_heads == 0) return;
  // A `recv` without data would clear the socket's error, which libcurl needs.
  if (happened & CURL_CSELECT_ERR && (ioctl(fd, FIONREAD, &readable) != 0 || readable == 0)) return;
  ssize_t count = recv(fd, multi->peeked, sizeof multi->peeked, MSG_PEEK | MSG_DONTWAIT);
  multi->peeked_length = count > 0 ? (size_t)count : 0;
}

static void keep_refused_length(lua_multi *multi, lua_transfer *transfer) {
  http_span rest = http_fields(multi->peeked, multi->peeked_length);
  for (http_field field; http_next_field(&rest, &field);) {
    int64_t length;
    if (!http_is(field.name, "content-length") || http_read_length(field.value, &length)) continue;
    if (field.value.length > 40 || !http_is_value(field.value.start, field.value.length)) return;
    transfer->refused_length = strndup(field.value.start, field.value.length);
    return;
  }
}

static void find_ended(lua_multi *multi) {
  int left;
  CURLMsg *message;
  while ((message = lua_curl.curl_multi_info_read(multi->multi, &left))) {
    if (message->msg != CURLMSG_DONE) continue;
    for (lua_transfer *transfer = multi->transfers; transfer; transfer = transfer->next) {
      if (transfer->easy != message->easy_handle) continue;
      // If this module has already ended the transfer by an error, the code of that error stays.
      if (!transfer->is_over) transfer->code = message->data.result;
      if (transfer->code == CURLE_WEIRD_SERVER_REPLY && !transfer->is_over) keep_refused_length(multi, transfer);
      transfer->is_over = 1;
      lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &transfer->system_error);
      lua_curl_check_end(transfer);
      lua_curl_changed(transfer);
      break;
    }
  }
}

// multi:act(fd, mask): reports an event of a descriptor. With an fd of -1: reports that the time for which curl has
// asked is over.
static int act(lua_State *L) {
  lua_multi *multi = check_multi(L);
  int running, fd = (int)luaL_checkinteger(L, 2), happened = (int)luaL_checkinteger(L, 3);
  if (fd >= 0 && happened & CURL_CSELECT_IN) peek(multi, fd, happened);
  lua_curl.curl_multi_socket_action(multi->multi, fd, happened, &running);
  find_ended(multi);
  return 0;
}

enum { EVENT_SOCKET = 1, EVENT_CLOSE, EVENT_TIMEOUT, EVENT_TRANSFER };

// multi:next() -> kind, …: 1, fd, events to watch (1 input, 2 output, 3 both, 4 none); 2, fd to close; 3, seconds or
// nil; 4, number of a transfer that has changed; or nothing
static int next_event(lua_State *L) {
  lua_multi *multi = check_multi(L);
  find_ended(multi);
  if (multi->event_taken < multi->event_count) {
    struct lua_socket_event event = multi->events[multi->event_taken++];
    lua_pushinteger(L, event.what < 0 ? EVENT_CLOSE : EVENT_SOCKET);
    lua_pushinteger(L, event.fd);
    lua_pushinteger(L, event.what);
    return 3;
  }
  multi->event_taken = multi->event_count = 0;
  if (multi->timeout_changed) {
    multi->timeout_changed = 0;
    lua_pushinteger(L, EVENT_TIMEOUT);
    if (multi->timeout < 0) lua_pushnil(L);
    else lua_pushnumber(L, (lua_Number)multi->timeout / 1000);
    return 2;
  }
  lua_transfer *transfer = multi->changed;
  if (!transfer) return 0;
  multi->changed = transfer->next_changed;
  if (!multi->changed) multi->last_changed = NULL;
  transfer->is_changed = 0;
  if (transfer->upload_is_refused) {
    transfer->upload_is_refused = 0;
    lua_curl_resume_upload(transfer);
  }
  lua_pushinteger(L, EVENT_TRANSFER);
  lua_pushinteger(L, transfer->number);
  return 2;
}

static int close_socket(lua_State *L) {
  close((int)luaL_checkinteger(L, 2));
  return 0;
}

static int close_method(lua_State *L) {
  close_multi(luaL_checkudata(L, 1, MULTI));
  return 0;
}

// multi:start(options) -> transfer, its number
static int start(lua_State *L) {
  lua_multi *multi = check_multi(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_transfer *transfer = lua_newuserdatauv(L, sizeof *transfer, 2);
  *transfer = (lua_transfer){0};
  luaL_setmetatable(L, TRANSFER);
  // The transfer uses the multi, and the texts in its options.
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 2);
  transfer->easy = lua_curl.curl_easy_init();
  if (!transfer->easy) return luaL_error(L, "not enough memory");
  if (multi->share) lua_curl.curl_easy_setopt(transfer->easy, CURLOPT_SHARE, multi->share);
  transfer->number = ++multi->count;
  transfer->multi = multi;
  lua_curl_configure(L, transfer, 2);
  transfer->next = multi->transfers;
  if (transfer->next) transfer->next->previous = transfer;
  multi->transfers = transfer;
  transfer->awaits_head = 1;
  multi->awaited_heads++;
  CURLMcode code = lua_curl.curl_multi_add_handle(multi->multi, transfer->easy);
  if (code != CURLM_OK) {
    lua_curl_end(transfer);
    return luaL_error(L, "http: libcurl refuses the request (%d)", (int)code);
  }
  lua_pushinteger(L, transfer->number);
  return 2;
}

static void make_metatable(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction collect) {
  if (luaL_newmetatable(L, name)) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
}

int http_open_curl(lua_State *L) {
  static const luaL_Reg methods[] = {{"act", act},     {"next", next_event},    {"close_socket", close_socket},
                                     {"start", start}, {"close", close_method}, {NULL, NULL}};
  char problem[512];
  int error = lua_curl_load(problem, sizeof problem);
  if (error) {
    lua_pushnil(L);
    lua_pushstring(L, problem);
    lua_pushstring(L, linux_error_name(error));
    return 3;
  }
  luaL_checkstack(L, 10, NULL);
  make_metatable(L, MULTI, methods, collect_multi);
  make_metatable(L, TRANSFER, lua_curl_transfer_methods, lua_curl_collect_transfer);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, make_multi);
  lua_setfield(L, -2, "multi");
  lua_pushstring(L, lua_curl.curl_version_info(CURLVERSION_NOW)->version);
  lua_setfield(L, -2, "version");
  return 1;
}
