// Notes which functions of Lua's own library block the thread, for warnings about what holds a loop: these functions
// wait for other programs and for input, and no instruction of the script's runs meanwhile.
#include "private.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

// Shorter calls are not worth a note.
enum { LEAST_NANOSECONDS = 1000000 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int is_place(const cl_held *held, const cl_held *other) {
  return held->name == other->name && held->line == other->line && strcmp(held->source, other->source) == 0;
}

// Stores a call in the ring. The ring is short, so calls from one line that follow one another without a pause, as in a
// loop, count as one call.
static void note(cl_state *state, const cl_held *held) {
  cl_held *last = &state->held[state->last_held];
  if (is_place(last, held) && held->began - last->ended < LEAST_NANOSECONDS) {
    last->ended = held->ended;
    return;
  }
  state->last_held = (state->last_held + 1) % CL_HELD;
  state->held[state->last_held] = *held;
}

// The function is the first upvalue, its name the second. The function itself has no upvalues. A call that raises an
// error is not noted.
static int timed(lua_State *L) {
  cl_held held;
  held.began = now();
  int count = ((lua_CFunction)lua_touserdata(L, lua_upvalueindex(1)))(L);
  held.ended = now();
  if (held.ended - held.began < LEAST_NANOSECONDS) return count;
  held.name = lua_touserdata(L, lua_upvalueindex(2));
  held.source[0] = 0;
  held.line = cl_place(L, held.source);
  note(cl_state_of(L), &held);
  return count;
}

static void write_place(const cl_held *held, char *text, size_t size) {
  if (held->line > 0) snprintf(text, size, "%s at %s:%d", held->name, held->source, held->line);
  else snprintf(text, size, "%s", held->name);
}

int cl_what_blocked(const cl_state *state, int64_t began, int64_t took, char *text, size_t size) {
  const cl_held *places[CL_HELD];
  int64_t sums[CL_HELD];
  int count = 0, first = 0, second = -1;
  for (const cl_held *held = state->held; held < state->held + CL_HELD; held++) {
    int64_t own = held->ended - (held->began < began ? began : held->began);
    if (!held->name || own <= 0) continue;
    int i = 0;
    while (i < count && !is_place(places[i], held)) i++;
    if (i == count) places[count] = held, sums[count++] = 0;
    sums[i] += own;
  }
  for (int i = 1; i < count; i++)
    if (sums[i] > sums[first]) first = i;
  for (int i = 0; i < count; i++)
    if (i != first && (second < 0 || sums[i] > sums[second])) second = i;
  if (count == 0) return 0;
  int needs_two = sums[first] < took / 2;
  if (needs_two && (second < 0 || sums[first] + sums[second] < took / 2)) return 0;
  write_place(places[first], text, size);
  size_t length = strlen(text);
  if (needs_two) {
    snprintf(text + length, size - length, " and ");
    length = strlen(text);
    write_place(places[second], text + length, size - length);
  }
  return 1;
}

// Replaces a field of the table on top of the stack.
static void time_field(lua_State *L, const char *field, const char *name) {
  lua_CFunction function = lua_getfield(L, -1, field) == LUA_TFUNCTION ? lua_tocfunction(L, -1) : NULL;
  int has_own = function && lua_getupvalue(L, -1, 1) != NULL;
  lua_pop(L, has_own ? 2 : 1);
  if (!function || has_own) return;
  lua_pushlightuserdata(L, (void *)function);
  lua_pushlightuserdata(L, (void *)name);
  lua_pushcclosure(L, timed, 2);
  lua_setfield(L, -2, field);
}

static int p_note_blocking(lua_State *L) {
  lua_getglobal(L, "os");
  if (lua_istable(L, -1)) time_field(L, "execute", "os.execute");
  lua_getglobal(L, "io");
  if (lua_istable(L, -1)) time_field(L, "read", "io.read");
  if (luaL_getmetatable(L, LUA_FILEHANDLE) == LUA_TTABLE && lua_getfield(L, -1, "__index") == LUA_TTABLE) {
    time_field(L, "read", "file:read");
    time_field(L, "close", "file:close");
  }
  return 0;
}

int cl_note_blocking(lua_State *L) { return cl_call_protected(L, p_note_blocking, 0, 0); }
