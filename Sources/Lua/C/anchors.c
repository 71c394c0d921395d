// Objects that the host keeps alive, by slot, so that a callback finds its userdata.
#include "private.h"

#include <stdlib.h>

#define FIRST_ANCHORS 64
#define MANY_ANCHORS 4096  // with fewer slots, freeing them is not worth the work

static int p_add_anchors(lua_State *L) {
  lua_Integer first = lua_tointeger(L, 1), last = lua_tointeger(L, 2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->anchors);
  for (lua_Integer i = first; i <= last; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i);
  }
  return 0;
}

// Doubles the number of slots. One more entry than a power of two makes Lua double the table's array; from then on,
// filling a slot allocates nothing.
static int add_anchors(lua_State *L, cl_state *state) {
  uint32_t count = state->slot_count ? state->slot_count * 2 : FIRST_ANCHORS;
  uint32_t *slots = realloc(state->free_slots, count * sizeof *slots);
  if (!slots) return 0;
  state->free_slots = slots;
  if (!lua_checkstack(L, 24)) return 0;
  lua_pushinteger(L, state->slot_count + 1);
  lua_pushinteger(L, state->slot_count ? state->slot_count + 1 : FIRST_ANCHORS);
  if (cl_call_protected(L, p_add_anchors, 2, 0) != LUA_OK) {
    lua_pop(L, 1);
    return 0;
  }
  state->slot_count = count;
  return 1;
}

// Reuses free slots before it takes fresh ones, and begins with the lowest, which keeps the table dense.
uint32_t cl_anchor(lua_State *L, int index) {
  cl_state *state = cl_state_of(L);
  if (!lua_checkstack(L, 3)) return 0;
  if (state->free_count == 0 && state->slots_used == state->slot_count && !add_anchors(L, state)) return 0;
  uint32_t slot = state->free_count > 0 ? state->free_slots[--state->free_count] : ++state->slots_used;
  index = lua_absindex(L, index);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  return slot;
}

static int p_drop_anchors(lua_State *L) {
  lua_Integer first = lua_tointeger(L, 1), last = lua_tointeger(L, 2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->anchors);
  for (lua_Integer i = first; i <= last; i++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  // A key that does not fit makes Lua compute the table's sizes again.
  for (int is_there = 1; is_there >= 0; is_there--) {
    lua_pushboolean(L, 1);
    if (is_there) lua_pushboolean(L, 1);
    else lua_pushnil(L);
    lua_rawset(L, -3);
  }
  return 0;
}

// Frees the slots after the last one in use, if a burst has left many.
void cl_shrink_anchors(cl_state *state) {
  lua_State *L = state->main;
  if (!L || state->slot_count < MANY_ANCHORS || state->free_count < state->slots_used / 4 * 3) return;
  // Few slots are in use, but one of them lies near the end. Tries again only after others have been released.
  if (state->free_count == state->free_in_vain) return;
  unsigned char *is_free = calloc(state->slots_used + 1, 1);
  if (!is_free) return;
  for (uint32_t i = 0; i < state->free_count; i++) is_free[state->free_slots[i]] = 1;
  uint32_t used = state->slots_used, count = FIRST_ANCHORS;
  while (used > 0 && is_free[used]) used--;
  while (count < used) count *= 2;
  if (count <= state->slot_count / 4 && lua_checkstack(L, 24)) {
    lua_pushinteger(L, count + 1);
    lua_pushinteger(L, state->slot_count);
    if (cl_call_protected(L, p_drop_anchors, 2, 0) != LUA_OK) lua_pop(L, 1);
    state->slot_count = count;
    state->slots_used = used;
    state->free_count = 0;
    // The lowest free slot is to be used next.
    for (uint32_t i = used; i > 0; i--)
      if (is_free[i]) state->free_slots[state->free_count++] = i;
    uint32_t *slots = realloc(state->free_slots, count * sizeof *slots);
    if (slots) state->free_slots = slots;
  } else {
    state->free_in_vain = state->free_count;
  }
  free(is_free);
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

// Stores `false`, not nil: the slot stays in the table, so neither this nor its next use can raise.
void cl_let_go(cl_state *state, uint32_t slot) {
  lua_State *L = state->main;  // no function runs on this stack, so it has room
  if (!L || slot == 0) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  state->free_slots[state->free_count++] = slot;
}
