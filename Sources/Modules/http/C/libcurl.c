// Loads libcurl at first use, and connects transfers with their multis.
#include <dlfcn.h>
#include <libraries.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transfers.h"

struct curl_functions lua_curl;

// If libcurl uses OpenSSL, OpenSSL is initialised already: see libraries.c.
static const char *find_functions(void *library) {
#define FIND(name) \
  if (!(lua_curl.name = dlsym(library, #name))) return "has no " #name ": it is too old";
  CURL_FUNCTIONS(FIND)
#undef FIND
  return lua_curl.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? NULL : "cannot be initialized";
}

int lua_curl_load(char *problem, size_t size) {
  static struct linux_library library = {"libcurl.so.4", "libcurl4", find_functions, 0};
  return linux_use_library(&library, problem, size);
}

int lua_curl_append(linux_bytes *to, const char *bytes, size_t length) {
  if (!linux_reserve(to, length)) return 0;
  if (length) memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
  return 1;
}

void lua_curl_changed(lua_transfer *transfer) {
  lua_multi *multi = transfer->multi;
  if (transfer->is_changed || !multi) return;
  transfer->is_changed = 1;
  transfer->next_changed = NULL;
  if (multi->last_changed) multi->last_changed->next_changed = transfer;
  else multi->changed = transfer;
  multi->last_changed = transfer;
}

void lua_curl_add_event(lua_multi *multi, int fd, int what) {
  if (multi->event_count == multi->event_capacity) {
    size_t capacity = multi->event_capacity ? multi->event_capacity * 2 : 32;
    void *larger = realloc(multi->events, capacity * sizeof *multi->events);
    if (!larger) return;
    multi->events = larger;
    multi->event_capacity = capacity;
  }
  multi->events[multi->event_count++] = (struct lua_socket_event){fd, what};
}

// Lua closes descriptors after it has stopped watching them: otherwise it could mistake a new descriptor with the same
// number for the old one.
int lua_curl_close_later(void *data, curl_socket_t fd) {
  lua_multi *multi = data;
  if (multi && multi->multi) lua_curl_add_event(multi, fd, -1);
  else close(fd);
  return 0;
}

void lua_curl_resume_upload(lua_transfer *transfer) {
  if (!transfer->upload_is_paused || !transfer->easy) return;
  transfer->upload_is_paused = 0;
  lua_curl.curl_easy_pause(transfer->easy, transfer->is_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
}

void lua_curl_had_head(lua_transfer *transfer) {
  if (transfer->awaits_head && transfer->multi) transfer->multi->awaited_heads--;
  transfer->awaits_head = 0;
}

void lua_curl_end(lua_transfer *transfer) {
  lua_multi *multi = transfer->multi;
  lua_curl_had_head(transfer);
  if (transfer->easy) {
    if (multi) {
      lua_curl.curl_multi_remove_handle(multi->multi, transfer->easy);
      if (transfer->previous) transfer->previous->next = transfer->next;
      else if (multi->transfers == transfer) multi->transfers = transfer->next;
      if (transfer->next) transfer->next->previous = transfer->previous;
    }
    lua_curl.curl_easy_cleanup(transfer->easy);
    transfer->easy = NULL;
  }
  if (multi && transfer->is_changed) {
    lua_transfer **place = &multi->changed, *last = NULL;
    while (*place != transfer) last = *place, place = &(*place)->next_changed;
    *place = transfer->next_changed;
    if (multi->last_changed == transfer) multi->last_changed = last;
    transfer->is_changed = 0;
  }
  for (int i = 0; i < 4; i++) {
    lua_curl.curl_slist_free_all(transfer->lists[i]);
    transfer->lists[i] = NULL;
  }
  free(transfer->upload.bytes);
  transfer->upload = (linux_bytes){0};
  transfer->previous = transfer->next = NULL;
}
