// Creation sites of objects.
#include "private.h"

#include <stdlib.h>

struct site {
  const void *source;
  int line;
  char name[LUA_IDSIZE];
};

struct cl_sites {
  struct site *list;
  uint32_t count, capacity;
  uint32_t *table;  // open addressing: indices into the list, plus 1
  uint32_t mask;
};

static uint32_t hash_site(const void *source, int line) {
  uint64_t h = ((uint64_t)(uintptr_t)source >> 4) * 0x9E3779B97F4A7C15u + (uint32_t)line * 0xC2B2AE3Du;
  return (uint32_t)(h >> 29);
}

static int grow_sites(cl_sites *s) {
  uint32_t capacity = s->capacity ? s->capacity * 2 : 64;
  void *list = realloc(s->list, capacity * sizeof *s->list);
  if (!list) return 0;
  s->list = list;
  uint32_t *table = calloc(capacity * 2, sizeof *table);
  if (!table) return 0;
  free(s->table);
  s->table = table;
  s->mask = capacity * 2 - 1;
  s->capacity = capacity;
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t at = hash_site(s->list[i].source, s->list[i].line) & s->mask;
    while (s->table[at]) at = (at + 1) & s->mask;
    s->table[at] = i + 1;
  }
  return 1;
}

// Whether a frame is the script's own: no C function, and not of the Lua-written part of the host.
int cl_is_scripts(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "Sl", debug);
  return debug->currentline > 0 && !cl_is_hosts(debug);
}

// Sites are few and never freed. A source's text may be collected and its address reused, so compare the source's name,
// too.
uint32_t cl_site_of_caller(lua_State *L) {
  lua_Debug debug;
  for (int level = 1; level < 12 && lua_getstack(L, level, &debug); level++) {
    // Only at level 1 ask for the source at once: level 1 is seldom a C function, and for C functions this is slower.
    lua_getinfo(L, level == 1 ? "Sl" : "l", &debug);
    if (debug.currentline <= 0) continue;
    if (level > 1) lua_getinfo(L, "S", &debug);
    if (cl_is_hosts(&debug)) continue;
    cl_sites *s = cl_state_of(L)->sites;
    if (s->count == s->capacity && !grow_sites(s)) return 0;
    uint32_t at = hash_site(debug.source, debug.currentline) & s->mask;
    for (; s->table[at]; at = (at + 1) & s->mask) {
      uint32_t i = s->table[at] - 1;
      if (s->list[i].source == debug.source && s->list[i].line == debug.currentline &&
          strcmp(s->list[i].name, debug.short_src) == 0)
        return i + 1;
    }
    s->list[s->count].source = debug.source;
    s->list[s->count].line = debug.currentline;
    strcpy(s->list[s->count].name, debug.short_src);
    s->table[at] = ++s->count;
    return s->count;
  }
  return 0;
}

const char *cl_site(cl_state *state, uint32_t site, int *line) {
  if (site == 0 || site > state->sites->count) return NULL;
  *line = state->sites->list[site - 1].line;
  return state->sites->list[site - 1].name;
}

cl_sites *cl_new_sites(void) { return calloc(1, sizeof(cl_sites)); }

void cl_free_sites(cl_sites *s) {
  if (!s) return;
  free(s->list);
  free(s->table);
  free(s);
}
