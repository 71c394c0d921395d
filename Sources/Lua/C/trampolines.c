// The functions that Lua calls. See CLuaSupport.h for why each of them is a trampoline.
#include "private.h"

#include <stdio.h>

static const char raise_mark = 0, bytes_mark = 0, pieces_mark = 0;
void *cl_raise_mark(void) { return (void *)&raise_mark; }
void *cl_bytes_mark(void) { return (void *)&bytes_mark; }
void *cl_pieces_mark(void) { return (void *)&pieces_mark; }

// Pushes the bytes directly from their memory, without a copy in the scratch buffer.
static int answer_bytes(lua_State *L) {
  cl_state *state = cl_state_of(L);
  lua_pushlstring(L, state->bytes_start, state->bytes_length);
  return 1;
}

static int after_yield(lua_State *L, int status, lua_KContext top) {
  (void)status;
  int first = (int)top + 1;
  const void *mark = lua_touserdata(L, first);
  if (mark == &bytes_mark) return answer_bytes(L);
  if (mark == &raise_mark) {
    lua_settop(L, first + 1);
    return lua_error(L);
  }
  if (mark == &pieces_mark) return cl_answer_pieces(L);
  return lua_gettop(L) - (int)top;
}

static int after_call(lua_State *L, int status, lua_KContext base) {
  (void)status;
  return lua_gettop(L) - (int)base;
}

static int conclude(lua_State *L, int verdict) {
  cl_state *state = cl_state_of(L);
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
      lua_pushlstring(L, state->scratch, state->length);
      cl_push_position(L);
      lua_insert(L, 1);
      lua_concat(L, 2);
      return lua_error(L);
    case CL_RAISE_VALUE: return lua_error(L);
    case CL_RAISE_INTERRUPTION:
      cl_push_position(L);
      lua_pushliteral(L, "interrupted!");
      lua_concat(L, 2);
      cl_note_interruption(L);
      return lua_error(L);
    case CL_YIELD: base = lua_gettop(L); return lua_yieldk(L, 0, base, after_yield);
    case CL_RESULTS:
      base = lua_gettop(L);
      cl_decode_scratch(L);
      return lua_gettop(L) - base;
    case CL_BYTES: return answer_bytes(L);
    case CL_PIECES: return cl_answer_pieces(L);
    case CL_STRING: lua_pushlstring(L, state->scratch, state->length); return 1;
    default: return luaL_error(L, "not enough memory");
  }
}

static int run(lua_State *L, cl_function function) {
  int verdict = function(L);
  return verdict >= 0 ? verdict : conclude(L, verdict);
}

// Adds the position of the script, not of the direct caller: modules written in Lua call the API as well.
static int closing(lua_State *L) {
  char source[LUA_IDSIZE];
  int line = cl_place(L, source);
  if (line <= 0) return luaL_error(L, "rlhost: the state is being closed");
  lua_pushfstring(L, "%s:%d: rlhost: the state is being closed", source, line);
  return lua_error(L);
}

static int call_function(lua_State *L) {
  if (cl_state_of(L)->closing) return closing(L);
  return run(L, cl_running(L)->function);
}

// Runs a method or constructor of an object. Its function may call Lua, and so other methods, and still has its own
// receiver afterwards: each call restores the receiver of the call around it.
static int run_on(lua_State *L, cl_state *state, cl_box *receiver, cl_function function) {
  cl_box *outer = state->receiver;
  state->receiver = receiver;
  int verdict = function(L);
  state->receiver = outer;
  return verdict >= 0 ? verdict : conclude(L, verdict);
}

// Whether a receiver is an object of the method's kind. Returns 0 for an object whose finalizer has run, since it is
// empty.
static int is_whole(const cl_box *box, const cl_kind *kind) { return box && (box->object || !kind->collect); }

static int call_method(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  cl_state *state = cl_state_of(L);
  if (state->closing) return closing(L);
  cl_box *box = cl_box_at(L, 1, entry->self_kind);
  return run_on(L, state, box, is_whole(box, entry->self_kind) ? entry->function : state->wrong_self);
}

// Returns the largest integer key of a table by a raw traversal: the length operator may stop at a nil.
static int count_positional(lua_State *L, int table) {
  lua_Integer largest = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > largest) largest = lua_tointeger(L, -2);
    lua_pop(L, 1);
  }
  return largest > 100000 ? 100000 : (int)largest;
}

// Packs the arguments from `first` on, before Swift is called. Raises if a value cannot be sent.
static void pack_arguments(lua_State *L, int first, const cl_entry *entry) {
  cl_parcel *parcel = cl_pack(L, first, entry);
  if (!parcel && lua_isnil(L, -1)) luaL_error(L, "not enough memory");
  if (!parcel) lua_error(L);
  cl_free_parcel(cl_take_parcel(L));
  cl_state_of(L)->packed = parcel;
}

// Packs a call for another thread: the function and the arguments that a constructor keeps; or, if the options are a
// table, the table's elements. Packs nothing if there is no function.
static void pack_call(lua_State *L, const cl_entry *entry, int first, int table, int count) {
  int top = lua_gettop(L);
  int is_function = table ? lua_rawgeti(L, table, 1) == LUA_TFUNCTION : lua_isfunction(L, first);
  if (is_function) {
    lua_settop(L, top);
    luaL_checkstack(L, count + 20, NULL);
    for (int i = 0; i <= count; i++) {
      if (table) lua_rawgeti(L, table, 1 + i);
      else lua_pushvalue(L, first + i);
    }
    pack_arguments(L, top + 1, entry);
  }
  lua_settop(L, top);
}

// Makes the new object before Swift is called: if memory runs out, Lua raises while Swift owns nothing that could leak.
static int construct(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  cl_state *state = cl_state_of(L);
  if (state->closing) return closing(L);
  cl_box *self = entry->self_kind ? cl_box_at(L, 1, entry->self_kind) : NULL;
  if (entry->self_kind && !is_whole(self, entry->self_kind)) return run_on(L, state, self, state->wrong_self);
  int is_afar = entry->makes_afar && self && self->object != state->home;
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
  int results = run_on(L, state, box, entry->function);
  if (state->locals && kind->inherits && lua_touserdata(L, 1) == (void *)box) cl_bequeath_locals(L, 1);
  return results;
}

static int pack_and_call(lua_State *L) {
  const cl_entry *entry = cl_running(L);
  cl_state *state = cl_state_of(L);
  cl_box *self = entry->self_kind ? cl_box_at(L, 1, entry->self_kind) : NULL;
  if (entry->self_kind && !is_whole(self, entry->self_kind)) return run_on(L, state, self, state->wrong_self);
  if (state->closing) return closing(L);
  int first = entry->packs;
  luaL_checkstack(L, first + 20, NULL);
  if (lua_gettop(L) < first - 1) lua_settop(L, first - 1);
  pack_arguments(L, first, entry);
  return run_on(L, state, self, entry->function);
}

static void push_entry(lua_State *L, const cl_entry *entry) {
  if (entry->is_native) {
    lua_pushcfunction(L, entry->function);
    return;
  }
  lua_pushlightuserdata(L, (void *)entry);
  if (entry->makes) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->metatables[entry->makes->index]);
    if (entry->makes_afar) lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->metatables[entry->makes_afar->index]);
    lua_pushcclosure(L, construct, entry->makes_afar ? 3 : 2);
  } else {
    lua_pushcclosure(L, entry->packs ? pack_and_call : entry->self_kind ? call_method : call_function, 1);
  }
}

// Registering them ---------------------------------------------------------------------------------------------------

// Longer names are cut off.
enum { MOST_OF_NAME = 100 };

// Warns about an object that was made but never used. Nothing else would report such a mistake.
static void warn_of_unused(lua_State *L, const cl_box *box, const char *name) {
  int line = 0;
  const char *source = cl_site(cl_state_of(L), box->site, &line);
  if (!source) return;
  // Some kinds keep the name in the userdata.
  for (int n = 0; !*name && n < box->kind->user_values; n++) {
    if (strcmp(box->kind->value_names[n], "name") != 0) continue;
    if (lua_getiuservalue(L, 1, n + 1) == LUA_TSTRING) name = lua_tostring(L, -1);
    break;
  }
  fprintf(stderr, "rlhost: warning: %s%s", box->kind->name, *name ? " \"" : "");
  cl_print_shown(name, MOST_OF_NAME);
  fputs(*name ? "\" made at " : " made at ", stderr);
  cl_print_shown(source, SIZE_MAX / 2);
  fprintf(stderr, ":%d was collected and had never been in a loop\n", line);
}

// Whether Lua's collector has called the finalizer. A script that has found the finalizer with debug functions could
// call it while the object is in use. The collector is stopped during a finalizer; lua_gc then returns -1 since Lua
// 5.4.4, and 0 in earlier versions.
static int is_collecting(lua_State *L) {
  enum { STANDS_STILL = LUA_VERSION_RELEASE_NUM >= 50404 ? -1 : 0 };
  return lua_gc(L, LUA_GCISRUNNING) <= STANDS_STILL;
}

// The __gc of all kinds. The function must not run code that calls Lua.
static int collect(lua_State *L) {
  cl_box *box = cl_any_box_at(L, 1);
  if (!box || !is_collecting(L)) return 0;
  char name[MOST_OF_NAME + 1] = "";
  int is_unused = cl_state_of(L)->warns && box->kind->is_unused && box->kind->is_unused(box, name, MOST_OF_NAME);
  if (is_unused) warn_of_unused(L, box, name);
  if (box->kind->collect) box->kind->collect(L);
  return 0;
}

static int p_define_kind(lua_State *L) {
  cl_state *state = cl_state_of(L);
  const cl_kind *kind = lua_touserdata(L, 1);
  const cl_entry *methods = lua_touserdata(L, 2);
  int count = (int)lua_tointeger(L, 3);
  lua_createtable(L, 0, 8);
  lua_pushvalue(L, -1);
  state->metatables[kind->index] = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushstring(L, kind->name);
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  if (kind->collect || (state->warns && kind->is_unused)) {
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
  cl_watch_missing(L, kind->name);
  lua_setfield(L, -2, "__index");
  return 0;
}

int cl_define_kind(lua_State *L, const cl_kind *kind, const cl_entry *methods, int count) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  cl_state *state = cl_state_of(L);
  state->kinds[kind->index] = kind;
  lua_pushlightuserdata(L, (void *)kind);
  lua_pushlightuserdata(L, (void *)methods);
  lua_pushinteger(L, count);
  return cl_call_protected(L, p_define_kind, 3, 0);
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

void cl_push_function(lua_State *L, const cl_entry *entry) { push_entry(L, entry); }
