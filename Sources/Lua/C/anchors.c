// Objects that the host keeps alive, by slot, so that a callback finds its userdata.
#include "private.h"

#include <stdlib.h>

#define FIRST_ANCHORS 64
#define MANY_ANCHORS 4096  // with fewer slots, freeing them is not worth the work

static int is_full(const cl_state *state) { return state->free_count == 0 && state->slots_used == state->slot_count; }

// Doubles the number of slots. When a table gets one entry more than a power of two, Lua doubles the table's array.
// After that, filling a slot allocates nothing.
//
// Reads and changes the state in this function, not in the caller. The script's hooks run before and after this
// function, and they may anchor values.
static int p_add_anchors(lua_State *L) {
  cl_state *state = cl_state_of(L);
  if (!is_full(state)) return 0;
  uint32_t count = state->slot_count ? state->slot_count * 2 : FIRST_ANCHORS;
  uint32_t *slots = realloc(state->free_slots, count * sizeof *slots);
  if (!slots) return luaL_error(L, "not enough memory");
  state->free_slots = slots;
  lua_Integer first = (lua_Integer)state->slot_count + 1, last = state->slot_count ? first : FIRST_ANCHORS;
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  for (lua_Integer i = first; i <= last; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i);
  }
  state->slot_count = count;
  return 0;
}

static int add_anchors(lua_State *L) {
  if (!lua_checkstack(L, 24)) return 0;
  if (cl_call_protected(L, p_add_anchors, 0, 0) == LUA_OK) return 1;
  lua_pop(L, 1);
  return 0;
}

// Reuses free slots before it takes new ones, the lowest first, which keeps the table dense.
uint32_t cl_anchor(lua_State *L, int index) {
  cl_state *state = cl_state_of(L);
  if (!lua_checkstack(L, 3)) return 0;
  // A hook may have used the new slots before this code could, so check again.
  while (is_full(state))
    if (!add_anchors(L)) return 0;
  uint32_t slot = state->free_count > 0 ? state->free_slots[--state->free_count] : ++state->slots_used;
  index = lua_absindex(L, index);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  return slot;
}

// Empties the slots from `after` + 1 to `last`.
static void drop_anchors(lua_State *L, lua_Integer after, lua_Integer last) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->anchors);
  for (lua_Integer i = after + 1; i <= last; i++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  // Adding a key that does not fit makes Lua compute the table's size again.
  for (int is_there = 1; is_there >= 0; is_there--) {
    lua_pushboolean(L, 1);
    if (is_there) lua_pushboolean(L, 1);
    else lua_pushnil(L);
    lua_rawset(L, -3);
  }
}

// Like p_add_anchors, this function reads and changes the state between two calls of the script's hooks. It can raise
// an error only at its end.
static int p_shrink_anchors(lua_State *L) {
  cl_state *state = cl_state_of(L);
  unsigned char *is_free = calloc(state->slots_used + 1, 1);
  if (!is_free) return 0;
  for (uint32_t i = 0; i < state->free_count; i++) is_free[state->free_slots[i]] = 1;
  uint32_t used = state->slots_used, count = FIRST_ANCHORS, last = state->slot_count;
  while (used > 0 && is_free[used]) used--;
  while (count < used) count *= 2;
  if (count <= last / 4) {
    state->slot_count = count;
    state->slots_used = used;
    state->free_count = 0;
    // Put the free slots into the list so that the lowest one is used next.
    for (uint32_t i = used; i > 0; i--)
      if (is_free[i]) state->free_slots[state->free_count++] = i;
    uint32_t *slots = realloc(state->free_slots, count * sizeof *slots);
    if (slots) state->free_slots = slots;
  } else {
    state->free_in_vain = state->free_count;
  }
  free(is_free);
  if (state->slot_count < last) drop_anchors(L, count, last);
  return 0;
}

// Frees the slots after the last one in use, if a burst has left many.
void cl_shrink_anchors(cl_state *state) {
  lua_State *L = state->main;
  if (!L || state->slot_count < MANY_ANCHORS || state->free_count < state->slots_used / 4 * 3) return;
  // The last attempt freed nothing, because a slot near the end is in use. Try again only after further slots were
  // released.
  if (state->free_count == state->free_in_vain || !lua_checkstack(L, 24)) return;
  if (cl_call_protected(L, p_shrink_anchors, 0, 0) != LUA_OK) lua_pop(L, 1);
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

// Stores `false`, not nil: the slot stays in the table, so neither this assignment nor the slot's next use can raise an
// error.
void cl_let_go(cl_state *state, uint32_t slot) {
  lua_State *L = state->main;  // no function runs on this stack, so it has room
  if (!L || slot == 0) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  state->free_slots[state->free_count++] = slot;
}
