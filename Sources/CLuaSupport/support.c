#define _GNU_SOURCE
#include "private.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Creation sites ---------------------------------------------------------------------------------------------------------

typedef struct cl_sites {
  struct { const void *source; int line; char name[LUA_IDSIZE]; } *list;
  uint32_t count, capacity;
  uint32_t *table;  // open addressing, indices into the list plus 1
  uint32_t mask;
} cl_sites;

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
static int is_scripts(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "Sl", debug);
  return debug->currentline > 0 && !cl_is_hosts(debug);
}

// Sites are few and never forgotten. A source's text may be collected and its address used again, so the name is compared.
uint32_t cl_site_of_caller(lua_State *L) {
  lua_Debug debug;
  for (int level = 1; level < 12 && lua_getstack(L, level, &debug); level++) {
    if (!is_scripts(L, &debug)) continue;
    cl_sites *s = cl_host_of(L)->sites;
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

const char *cl_site(cl_host *host, uint32_t site, int *line) {
  if (site == 0 || site > host->sites->count) return NULL;
  *line = host->sites->list[site - 1].line;
  return host->sites->list[site - 1].name;
}

// The scratch buffer -----------------------------------------------------------------------------------------------------

void cl_reset(cl_host *host) { host->length = 0; }

int cl_write(cl_host *host, const void *bytes, size_t length) {
  if (host->length + length > host->capacity) {
    size_t capacity = host->capacity ? host->capacity : 256;
    while (capacity < host->length + length) capacity *= 2;
    char *larger = realloc(host->scratch, capacity);
    if (!larger) return 0;
    host->scratch = larger;
    host->capacity = capacity;
  }
  memcpy(host->scratch + host->length, bytes, length);
  host->length += length;
  return 1;
}

// Trampolines ------------------------------------------------------------------------------------------------------------

static const char raise_mark = 0;
void *cl_raise_mark(void) { return (void *)&raise_mark; }

static int after_yield(lua_State *L, int status, lua_KContext top) {
  (void)status;
  int first = (int)top + 1;
  if (lua_touserdata(L, first) == &raise_mark) {
    lua_settop(L, first + 1);
    return lua_error(L);
  }
  return lua_gettop(L) - (int)top;
}

// A string first, in one step: collecting garbage between two steps may run code that uses the scratch buffer again.
static void decode_scratch(lua_State *L) {
  cl_host *host = cl_host_of(L);
  lua_pushlstring(L, host->scratch, host->length);
  size_t length;
  const char *p = lua_tolstring(L, -1, &length);
  int program = lua_gettop(L);
  cl_run_program(L, p, p + length, 0);
  lua_remove(L, program);
}

static void push_position(lua_State *L) {
  lua_Debug debug;
  for (int level = 1; level < 4 && lua_getstack(L, level, &debug); level++) {
    if (!is_scripts(L, &debug)) continue;
    lua_pushfstring(L, "%s:%d: ", debug.short_src, debug.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

static int after_call(lua_State *L, int status, lua_KContext base) {
  (void)status;
  return lua_gettop(L) - (int)base;
}

static int conclude(lua_State *L, int verdict) {
  cl_host *host = cl_host_of(L);
  int base;
  if (verdict <= CL_CALL) {
    int arguments = CL_CALL - verdict;
    base = lua_gettop(L) - arguments - 1;
    lua_callk(L, arguments, LUA_MULTRET, base, after_call);
    return after_call(L, LUA_OK, base);
  }
  switch (verdict) {
    case CL_RAISE:
      lua_settop(L, 0);
      lua_pushlstring(L, host->scratch, host->length);
      push_position(L);
      lua_insert(L, 1);
      lua_concat(L, 2);
      return lua_error(L);
    case CL_RAISE_VALUE: return lua_error(L);
    case CL_RAISE_INTERRUPTION:
      push_position(L);
      lua_pushliteral(L, "interrupted!");
      lua_concat(L, 2);
      cl_note_interruption(L);
      return lua_error(L);
    case CL_YIELD: base = lua_gettop(L); return lua_yieldk(L, 0, base, after_yield);
    case CL_RESULTS:
      base = lua_gettop(L);
      decode_scratch(L);
      return lua_gettop(L) - base;
    case CL_STRING: lua_pushlstring(L, host->scratch, host->length); return 1;
    default: return luaL_error(L, "not enough memory");
  }
}

static int run(lua_State *L, cl_function function) {
  int verdict = function(L);
  return verdict >= 0 ? verdict : conclude(L, verdict);
}

static int closing(lua_State *L) { return luaL_error(L, "rlhost: the state is being closed"); }

void cl_push_name(lua_State *L, const cl_entry *entry) {
  if (entry->self_kind) lua_pushfstring(L, "%s:%s", entry->self_kind->name, entry->name);
  else lua_pushfstring(L, "%s%s", entry->library ? entry->library : "", entry->name);
}

static int call_function(lua_State *L) {
  if (cl_host_of(L)->closing) return closing(L);
  return run(L, cl_running(L)->function);
}

// Whether argument 1 is what the method is called on, which is then at hand for it. What a finalizer has met holds nothing any more.
static int has_self(lua_State *L, cl_host *host, const cl_kind *kind) {
  cl_box *box = cl_box_at(L, 1, kind);
  host->receiver = box;
  return box && (box->object || !kind->collect);
}

static int call_method(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  cl_host *host = cl_host_of(L);
  if (host->closing) return closing(L);
  return run(L, has_self(L, host, entry->self_kind) ? entry->function : host->wrong_self);
}

// The largest integer key of a table, by a raw traversal: the length operator is free to stop at a nil.
static int count_positional(lua_State *L, int table) {
  lua_Integer largest = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > largest) largest = lua_tointeger(L, -2);
    lua_pop(L, 1);
  }
  return largest > 100000 ? 100000 : (int)largest;
}

// What another thread is to call: the function before the arguments that a constructor keeps, and those; or the array part of the
// table in its place. The parcel is left on top; nil if there is no function.
static void pack_call(lua_State *L, const cl_entry *entry, int first, int table, int count) {
  int top = lua_gettop(L), is_function = lua_isfunction(L, first);
  if (table) {
    is_function = lua_rawgeti(L, table, 1) == LUA_TFUNCTION;
    lua_settop(L, top);
  }
  if (!is_function) {
    lua_pushnil(L);
    return;
  }
  luaL_checkstack(L, count + 20, NULL);
  for (int i = 0; i <= count; i++) {
    if (table) lua_rawgeti(L, table, 1 + i);
    else lua_pushvalue(L, first + i);
  }
  cl_push_parcel(L, top + 1, entry);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

// The new object is made, and therefore paid for, before Swift owns anything that a raise would leak.
static int construct(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  cl_host *host = cl_host_of(L);
  if (host->closing) return closing(L);
  if (entry->self_kind && !has_self(L, host, entry->self_kind)) return run(L, host->wrong_self);
  int is_afar = entry->makes_afar && host->receiver->object != host->home;
  const cl_kind *kind = is_afar ? entry->makes_afar : entry->makes;
  int first = entry->spread;
  int arguments = lua_gettop(L);
  int spread = 0, table = 0;
  if (first > 0) {
    if (arguments == first - 1 && lua_type(L, first - 1) == LUA_TTABLE) {
      table = first - 1;
      spread = count_positional(L, table) - 1;
    } else {
      spread = arguments - first + 1;
    }
    if (spread < 0) spread = 0;
    if (spread > 250) return luaL_error(L, "too many arguments (at most 250 can be kept)");
  }
  int kept = is_afar ? 0 : spread;
  cl_box *box = lua_newuserdatauv(L, kind->size, kind->user_values + kept);
  memset(box, 0, kind->size);
  box->kind = kind;
  box->spread = (uint32_t)kept;
  lua_pushvalue(L, lua_upvalueindex(is_afar ? 3 : 2));
  lua_setmetatable(L, -2);
  lua_insert(L, 1);
  for (int i = 0; i < kept; i++) {
    if (table) lua_rawgeti(L, table + 1, 2 + i);
    else lua_pushvalue(L, first + 1 + i);
    lua_setiuservalue(L, 1, kind->user_values + 1 + i);
  }
  if (is_afar) pack_call(L, entry, first, table ? table + 1 : 0, spread);
  host->receiver = box;
  return run(L, entry->function);
}

// A function that packs: what could not cross raises here, before Swift knows of the call.
static int pack_and_call(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  if (entry->self_kind && !has_self(L, cl_host_of(L), entry->self_kind)) return run(L, cl_host_of(L)->wrong_self);
  cl_push_parcel(L, entry->packs, entry);
  return call_function(L);
}

static void push_entry(lua_State *L, const cl_entry *entry) {
  if (entry->is_native) {
    lua_pushcfunction(L, entry->function);
    return;
  }
  lua_pushlightuserdata(L, (void *)entry);
  if (entry->makes) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, cl_host_of(L)->metatables[entry->makes->index]);
    if (entry->makes_afar) lua_rawgeti(L, LUA_REGISTRYINDEX, cl_host_of(L)->metatables[entry->makes_afar->index]);
    lua_pushcclosure(L, construct, entry->makes_afar ? 3 : 2);
  } else {
    lua_pushcclosure(L, entry->packs ? pack_and_call : entry->self_kind ? call_method : call_function, 1);
  }
}

static cl_kind kind_records[CL_MAX_KINDS];

// __gc: never runs code that touches Lua.
static int collect(lua_State *L) {
  cl_box *box = cl_any_box_at(L, 1);
  if (box && box->kind->collect) box->kind->collect(L);
  return 0;
}

cl_box *cl_any_box_at(lua_State *L, int index) {
  cl_box *box = lua_touserdata(L, index);
  if (!box || lua_rawlen(L, index) < sizeof(cl_box)) return NULL;
  // Somebody else's userdata has anything there.
  uintptr_t offset = (uintptr_t)box->kind - (uintptr_t)kind_records;
  if (offset >= sizeof kind_records || offset % sizeof *kind_records) return NULL;
  return cl_host_of(L)->kinds[offset / sizeof *kind_records] ? box : NULL;
}

int cl_next_kind(void) {
  static atomic_int next;
  int index = atomic_fetch_add(&next, 1);
  if (index < CL_MAX_KINDS) return index;
  fprintf(stderr, "rlhost: more than %d kinds of objects; see CL_MAX_KINDS\n", CL_MAX_KINDS);
  abort();
}

cl_kind *cl_kind_record(int index) { return &kind_records[index]; }

// Protected calls --------------------------------------------------------------------------------------------------------

// There was no memory for a larger stack: nil takes the place of the arguments, as an error value would.
int cl_no_room(lua_State *L, int arguments) {
  lua_pop(L, arguments);
  lua_pushnil(L);  // at worst in one of the places that Lua keeps behind every stack
  return LUA_ERRMEM;
}

int cl_call_protected(lua_State *L, lua_CFunction function, int arguments, int results) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, arguments);
  lua_pushcfunction(L, function);
  lua_insert(L, -1 - arguments);
  return lua_pcall(L, arguments, results, 0);
}

static int p_define_kind(lua_State *L) {
  cl_host *host = cl_host_of(L);
  const cl_kind *kind = lua_touserdata(L, 1);
  const cl_entry *methods = lua_touserdata(L, 2);
  int count = (int)lua_tointeger(L, 3);
  lua_createtable(L, 0, 8);
  lua_pushvalue(L, -1);
  host->metatables[kind->index] = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushstring(L, kind->name);
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  if (kind->collect) {
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
  }
  lua_createtable(L, 0, count);
  for (int i = 0; i < count; i++) {
    push_entry(L, &methods[i]);
    if (strcmp(methods[i].name, "invalidate") == 0) {
      lua_pushvalue(L, -1);
      lua_setfield(L, -4, "__close");
    }
    lua_setfield(L, strncmp(methods[i].name, "__", 2) == 0 ? -3 : -2, methods[i].name);
  }
  lua_setfield(L, -2, "__index");
  return 0;
}

int cl_define_kind(lua_State *L, const cl_kind *kind, const cl_entry *methods, int count) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  cl_host *host = cl_host_of(L);
  host->kinds[kind->index] = kind;
  lua_pushlightuserdata(L, (void *)kind);
  lua_pushlightuserdata(L, (void *)methods);
  lua_pushinteger(L, count);
  return cl_call_protected(L, p_define_kind, 3, 0);
}

static int p_push_object(lua_State *L) {
  const cl_kind *kind = lua_touserdata(L, 1);
  cl_push_box(L, (uint32_t)kind->index, lua_touserdata(L, 2));
  return 1;
}

int cl_push_object(lua_State *L, const cl_kind *kind, void *object) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_host_of(L)->boxes);
  if (lua_rawgetp(L, -1, object) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return LUA_OK;
  }
  lua_pop(L, 2);
  lua_pushlightuserdata(L, (void *)kind);
  lua_pushlightuserdata(L, object);
  return cl_call_protected(L, p_push_object, 2, 1);
}

static int p_new_library(lua_State *L) {
  const cl_entry *entries = lua_touserdata(L, 1);
  int count = (int)lua_tointeger(L, 2);
  lua_createtable(L, 0, count);
  for (int i = 0; i < count; i++) {
    push_entry(L, &entries[i]);
    lua_setfield(L, -2, entries[i].name);
  }
  return 1;
}

int cl_new_library(lua_State *L, const cl_entry *entries, int count) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)entries);
  lua_pushinteger(L, count);
  return cl_call_protected(L, p_new_library, 2, 1);
}

static int p_open_libraries(lua_State *L) {
  if (lua_toboolean(L, 1)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  cl_replace_functions(L);
  // As lua does it: a script starts in generational mode.
  if (lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCGEN, 0, 0);
  return 0;
}

int cl_open_libraries(lua_State *L, int without_environment) {
  lua_pushboolean(L, without_environment);
  return cl_call_protected(L, p_open_libraries, 1, 0);
}

void cl_stop_collector(lua_State *L) { lua_gc(L, LUA_GCSTOP); }

static int p_start_collector(lua_State *L) {
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCGEN, 0, 0);
  return 0;
}

int cl_start_collector(lua_State *L) { return cl_call_protected(L, p_start_collector, 0, 0); }

static int p_load_file(lua_State *L) {
  int status = luaL_loadfile(L, lua_touserdata(L, 1));
  cl_host_of(L)->is_unreadable = status == LUA_ERRFILE;
  return status == LUA_OK ? 1 : lua_error(L);
}

int cl_load_file(lua_State *L, const char *path) {
  lua_pushlightuserdata(L, (void *)path);
  return cl_call_protected(L, p_load_file, 1, 1);
}

static int p_load_text(lua_State *L) {
  int status = luaL_loadbuffer(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2), lua_touserdata(L, 3));
  return status == LUA_OK ? 1 : lua_error(L);
}

int cl_load_text(lua_State *L, const char *text, size_t length, const char *chunk_name) {
  lua_pushlightuserdata(L, (void *)text);
  lua_pushinteger(L, (lua_Integer)length);
  lua_pushlightuserdata(L, (void *)chunk_name);
  return cl_call_protected(L, p_load_text, 3, 1);
}

static int p_push_text(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

int cl_push_text(lua_State *L, const char *text, size_t length) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)text);
  lua_pushinteger(L, (lua_Integer)length);
  return cl_call_protected(L, p_push_text, 2, 1);
}

static int p_decode(lua_State *L) {
  decode_scratch(L);
  return 1;
}

int cl_decode(lua_State *L) { return cl_call_protected(L, p_decode, 0, 1); }

static int p_set_global(lua_State *L) {
  lua_pushvalue(L, 1);
  lua_setglobal(L, lua_touserdata(L, 2));
  return 0;
}

int cl_set_global(lua_State *L, const char *name) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 1);
  lua_pushlightuserdata(L, (void *)name);
  return cl_call_protected(L, p_set_global, 2, 0);
}

static int p_get_global(lua_State *L) {
  lua_getglobal(L, lua_touserdata(L, 1));
  return 1;
}

int cl_get_global(lua_State *L, const char *name) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)name);
  return cl_call_protected(L, p_get_global, 1, 1);
}

// (package.preload, name) -> what makes the module, or nothing: `require` goes on looking.
static int find_module(lua_State *L) {
  static const char prefix[] = "runloop.";
  if (lua_type(L, 2) != LUA_TSTRING || strncmp(lua_tostring(L, 2), prefix, sizeof prefix - 1) != 0) return 0;
  if (cl_host_of(L)->closing || !((cl_function)lua_touserdata(L, lua_upvalueindex(1)))(L)) return 0;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, call_function, 1);
  return 1;
}

// Nothing is said of a module before somebody requires it: Lua asks package.preload first, and honours its __index.
static int p_open_modules(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, call_function, 1);
  lua_setfield(L, -2, "runloop");
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, find_module, 2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  return 0;
}

int cl_open_modules(lua_State *L, const cl_entry *open, cl_function knows, const cl_entry *open_other) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)open);
  lua_pushlightuserdata(L, (void *)knows);
  lua_pushlightuserdata(L, (void *)open_other);
  return cl_call_protected(L, p_open_modules, 3, 0);
}

static int p_push_table(lua_State *L) {
  lua_newtable(L);
  return 1;
}

int cl_push_table(lua_State *L) { return cl_call_protected(L, p_push_table, 0, 1); }

void cl_pause(int milliseconds) { poll(NULL, 0, milliseconds); }

static int p_new_thread(lua_State *L) {
  lua_State *thread = lua_newthread(L);
  // Not the hook of whoever happens to run now.
  cl_hook_new_thread(thread);
  *(uintptr_t *)lua_getextraspace(thread) |= 1;
  return 1;
}

int cl_new_thread(lua_State *L) { return cl_call_protected(L, p_new_thread, 0, 1); }

// Anchors ----------------------------------------------------------------------------------------------------------------

#define FIRST_ANCHORS 64

static int p_add_anchors(lua_State *L) {
  lua_Integer first = lua_tointeger(L, 1), last = lua_tointeger(L, 2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_host_of(L)->anchors);
  for (lua_Integer i = first; i <= last; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i);
  }
  return 0;
}

// Doubles them. Where all up to a power of two are there, one more makes Lua double the table's array: from then on, filling a
// place allocates nothing.
static int add_anchors(lua_State *L, cl_host *host) {
  uint32_t count = host->slot_count ? host->slot_count * 2 : FIRST_ANCHORS;
  uint32_t *slots = realloc(host->free_slots, count * sizeof *slots);
  if (!slots) return 0;
  host->free_slots = slots;
  if (!lua_checkstack(L, 24)) return 0;
  lua_pushinteger(L, host->slot_count + 1);
  lua_pushinteger(L, host->slot_count ? host->slot_count + 1 : FIRST_ANCHORS);
  if (cl_call_protected(L, p_add_anchors, 2, 0) != LUA_OK) {
    lua_pop(L, 1);
    return 0;
  }
  host->slot_count = count;
  return 1;
}

// Used places are handed out before fresh ones, and those from the lowest on, which keeps the table dense.
uint32_t cl_anchor(lua_State *L, int index) {
  cl_host *host = cl_host_of(L);
  if (!lua_checkstack(L, 3)) return 0;
  if (host->free_count == 0 && host->slots_used == host->slot_count && !add_anchors(L, host)) return 0;
  uint32_t slot = host->free_count > 0 ? host->free_slots[--host->free_count] : ++host->slots_used;
  index = lua_absindex(L, index);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->anchors);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  return slot;
}

static int p_anchor_texts(lua_State *L) {
  const char *text = lua_touserdata(L, 1);
  uint32_t *slots = lua_touserdata(L, 2);
  for (int i = 0, count = (int)lua_tointeger(L, 3); i < count; i++) {
    size_t length = strlen(text);
    lua_pushlstring(L, text, length);
    if (!(slots[i] = cl_anchor(L, -1))) return luaL_error(L, "not enough memory");
    lua_pop(L, 1);
    text += length + 1;
  }
  return 0;
}

int cl_anchor_texts(lua_State *L, const char *texts, uint32_t *slots, int count) {
  if (!lua_checkstack(L, 24)) return 0;
  lua_pushlightuserdata(L, (void *)texts);
  lua_pushlightuserdata(L, slots);
  lua_pushinteger(L, count);
  int status = cl_call_protected(L, p_anchor_texts, 3, 0);
  if (status != LUA_OK) lua_pop(L, 1);
  return status == LUA_OK;
}

// `false`, not nil: the place stays, and neither this nor the next use of it can raise.
void cl_let_go(cl_host *host, uint32_t slot) {
  lua_State *L = host->main;  // no function runs on its stack: there is room
  if (!L || slot == 0) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->anchors);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  host->free_slots[host->free_count++] = slot;
}

const char *cl_error_name(int number) {
  const char *name = strerrorname_np(number);
  return name ? name : "EUNKNOWN";
}

// Without the capital: the text stands after a colon.
const char *cl_error_text(int number) {
  static _Thread_local char text[128];
  const char *description = strerrordesc_np(number);
  snprintf(text, sizeof text, "%s", description ? description : "unknown error");
  if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z') text[0] += 'a' - 'A';
  return text;
}

// Functions for the Lua-written part -----------------------------------------------------------------------------------

static int in_methods(lua_State *L) {  // (kind name) -> the table of its methods
  cl_host *host = cl_host_of(L);
  const char *name = luaL_checkstring(L, 1);
  for (int i = 0; i < CL_MAX_KINDS; i++) {
    if (!host->kinds[i] || strcmp(host->kinds[i]->name, name) != 0) continue;
    lua_rawgeti(L, LUA_REGISTRYINDEX, host->metatables[i]);
    lua_getfield(L, -1, "__index");
    return 1;
  }
  return luaL_error(L, "no kind '%s'", name);
}

static int in_kind(lua_State *L) {  // (value) -> the name of its kind, or nil
  cl_box *box = cl_any_box_at(L, 1);
  if (!box) return 0;
  lua_pushstring(L, box->kind->name);
  return 1;
}

static int in_value_number(lua_State *L) {  // (kind name, name of a user value) -> its number
  cl_host *host = cl_host_of(L);
  const char *name = luaL_checkstring(L, 1), *value = luaL_checkstring(L, 2);
  for (int i = 0; i < CL_MAX_KINDS; i++) {
    const cl_kind *kind = host->kinds[i];
    if (!kind || strcmp(kind->name, name) != 0) continue;
    for (int n = 0; n < kind->user_values; n++) {
      if (strcmp(kind->value_names[n], value) != 0) continue;
      lua_pushinteger(L, n + 1);
      return 1;
    }
  }
  return luaL_error(L, "no user value '%s' of a %s", value, name);
}

static int in_value(lua_State *L) {  // (object, n) -> its n-th user value
  if (!cl_any_box_at(L, 1)) return luaL_argerror(L, 1, "an object of rlhost expected");
  lua_getiuservalue(L, 1, (int)luaL_checkinteger(L, 2));
  return 1;
}

static int in_set_value(lua_State *L) {  // (object, n, value)
  if (!cl_any_box_at(L, 1)) return luaL_argerror(L, 1, "an object of rlhost expected");
  lua_settop(L, 3);
  lua_setiuservalue(L, 1, (int)luaL_checkinteger(L, 2));
  return 0;
}

static int in_fileno(lua_State *L) {  // (file) -> its descriptor, or nil if it is closed
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  if (!stream->closef) return 0;
  lua_pushinteger(L, fileno(stream->f));
  return 1;
}

static int p_push_internals(lua_State *L) {
  static const luaL_Reg functions[] = {{"methods", in_methods}, {"kind", in_kind}, {"value", in_value},
                                       {"set_value", in_set_value}, {"value_number", in_value_number}, {"fileno", in_fileno}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}

int cl_push_internals(lua_State *L) { return cl_call_protected(L, p_push_internals, 0, 1); }

static int p_replace(lua_State *L) {
  lua_getglobal(L, lua_touserdata(L, 2));
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_settable(L, 3);
  }
  return 0;
}

int cl_replace(lua_State *L, const char *library) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 1);
  lua_pushlightuserdata(L, (void *)library);
  return cl_call_protected(L, p_replace, 2, 0);
}

void cl_exit(int status) { exit(status); }

int cl_live_objects(int change) {
  static _Thread_local int count;
  return count += change;
}

// Opening and closing ----------------------------------------------------------------------------------------------------

static int panic(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "rlhost: unprotected error in Lua (%s)\n", message ? message : "no text");
  return 0;  // Lua aborts
}

static void warn(void *data, const char *message, int to_be_continued);
static void warn_continued(void *data, const char *message, int to_be_continued);
static void warn_off(void *data, const char *message, int to_be_continued);

static int is_control(lua_State *L, const char *message, int to_be_continued) {
  if (to_be_continued || *message++ != '@') return 0;
  if (strcmp(message, "off") == 0) lua_setwarnf(L, warn_off, L);
  else if (strcmp(message, "on") == 0) lua_setwarnf(L, warn, L);
  return 1;
}

static void warn_off(void *data, const char *message, int to_be_continued) { is_control(data, message, to_be_continued); }

static void warn_continued(void *data, const char *message, int to_be_continued) {
  fputs(message, stderr);
  if (to_be_continued) {
    lua_setwarnf(data, warn_continued, data);
  } else {
    fputc('\n', stderr);
    lua_setwarnf(data, warn, data);
  }
}

static void warn(void *data, const char *message, int to_be_continued) {
  if (is_control(data, message, to_be_continued)) return;
  fputs("Lua warning: ", stderr);
  warn_continued(data, message, to_be_continued);
}

static int p_prepare(lua_State *L) {
  cl_host *host = cl_host_of(L);
  // Texts that Lua 5.4.4 makes outside any protection, when it can least afford to: from now on they exist.
  static const char *const texts[] = {"error in error handling", "cannot resume non-suspended coroutine",
                                      "cannot resume dead coroutine", "C stack overflow", "not enough memory"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lua_pushstring(L, texts[i]);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  cl_prepare_failures(L);
  lua_newtable(L);
  host->anchors = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  host->boxes = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

cl_host *cl_open(void *swift) {
  cl_host *host = calloc(1, sizeof *host);
  if (!host) return NULL;
  host->sites = calloc(1, sizeof *host->sites);
  if (host->sites) {
    host->swift = swift;
    host->main = lua_newstate(cl_allocate, host);
    if (host->main) {
      *(cl_host **)lua_getextraspace(host->main) = host;
      lua_atpanic(host->main, panic);
      lua_setwarnf(host->main, warn_off, host->main);
      if (cl_call_protected(host->main, p_prepare, 0, 0) == LUA_OK) return host;
      lua_close(host->main);
    }
  }
  cl_free(host);
  return NULL;
}

void cl_close(cl_host *host) {
  lua_State *L = host->main;
  host->main = NULL;  // finalizers that let go of anchors find none
  // Their coroutines are freed before the finalizers have all run.
  host->running = NULL;
  host->resumption = NULL;
  if (L) lua_close(L);
  cl_free_slabs(host);
}

void cl_free(cl_host *host) {
  cl_free_slabs(host);
  cl_drop_signals(host);
  if (host->sites) {
    free(host->sites->list);
    free(host->sites->table);
    free(host->sites);
  }
  free(host->scratch);
  free(host->free_slots);
  free(host);
}
