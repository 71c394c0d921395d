// The kinds of userdata, and the one userdata that stands for a Swift object in a state.
#include "private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static cl_kind kind_records[CL_MAX_KINDS];

cl_box *cl_any_box_at(lua_State *L, int index) {
  cl_box *box = lua_touserdata(L, index);
  if (!box || lua_rawlen(L, index) < sizeof(cl_box)) return NULL;
  // The userdata may belong to another library, so check the pointer before reading through it.
  uintptr_t offset = (uintptr_t)box->kind - (uintptr_t)kind_records;
  if (offset >= sizeof kind_records || offset % sizeof *kind_records) return NULL;
  return cl_state_of(L)->kinds[offset / sizeof *kind_records] ? box : NULL;
}

int cl_next_kind(void) {
  static atomic_int next;
  int index = atomic_fetch_add_explicit(&next, 1, memory_order_seq_cst);
  if (index < CL_MAX_KINDS) return index;
  fprintf(stderr, "rlhost: more than %d kinds of objects; see CL_MAX_KINDS\n", CL_MAX_KINDS);
  abort();
}

cl_kind *cl_kind_record(int index) { return &kind_records[index]; }

void cl_push_name(lua_State *L, const cl_entry *entry) {
  if (entry->said_as) lua_pushstring(L, entry->said_as);
  else if (entry->self_kind) lua_pushfstring(L, "%s:%s", entry->self_kind->name, entry->name);
  else lua_pushfstring(L, "%s%s", entry->library ? entry->library : "", entry->name);
}

// Each host object has a single userdata in a state, so that references to it compare equal and work as table keys.
void cl_push_box(lua_State *L, uint32_t kind, void *object) {
  cl_state *state = cl_state_of(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->boxes);
  if (lua_rawgetp(L, -1, object) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  if (!state->kinds[kind])
    luaL_error(L, "a %s cannot be received before its module is required here", cl_kind_record((int)kind)->name);
  cl_box *box = lua_newuserdatauv(L, state->kinds[kind]->size, state->kinds[kind]->user_values);
  memset(box, 0, state->kinds[kind]->size);
  box->kind = state->kinds[kind];
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->metatables[kind]);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, -3, object);
  lua_remove(L, -2);
  box->object = state->arrive(state, (int)kind, object);
}

static int p_push_object(lua_State *L) {
  const cl_kind *kind = lua_touserdata(L, 1);
  cl_push_box(L, (uint32_t)kind->index, lua_touserdata(L, 2));
  return 1;
}

int cl_push_object(lua_State *L, const cl_kind *kind, void *object) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->boxes);
  if (lua_rawgetp(L, -1, object) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return LUA_OK;
  }
  lua_pop(L, 2);
  lua_pushlightuserdata(L, (void *)kind);
  lua_pushlightuserdata(L, object);
  return cl_call_protected(L, p_push_object, 2, 1);
}

static int p_push_new(lua_State *L) {
  const cl_kind *kind = lua_touserdata(L, 1);
  cl_box *box = lua_newuserdatauv(L, kind->size, kind->user_values);
  memset(box, 0, kind->size);
  box->kind = kind;
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->metatables[kind->index]);
  lua_setmetatable(L, -2);
  return 1;
}

int cl_push_new(lua_State *L, const cl_kind *kind) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)kind);
  return cl_call_protected(L, p_push_new, 1, 1);
}

size_t cl_number_text(lua_State *L, int index, char text[64]) {
  if (lua_isinteger(L, index)) return (size_t)snprintf(text, 64, LUA_INTEGER_FMT, (LUAI_UACINT)lua_tointeger(L, index));
  int length = snprintf(text, 64, LUA_NUMBER_FMT, (LUAI_UACNUMBER)lua_tonumber(L, index));
  // As in Lua: a float that looks like an integer gets ".0".
  if (text[strspn(text, "-0123456789")] == 0) length += snprintf(text + length, (size_t)(64 - length), ".0");
  return (size_t)length;
}
