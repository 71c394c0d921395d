// Notes which functions of Lua's own library block the thread, for warnings about what holds a loop: these functions
// wait for other programs and for input, and no instruction of the script's runs meanwhile.
#include "private.h"

#include <time.h>

// Shorter calls are not worth a note.
enum { LEAST_NANOSECONDS = 1000000 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// The function is the first upvalue, its name the second. It has no upvalues of its own. One that raises is not noted.
static int timed(lua_State *L) {
  int64_t began = now();
  int count = ((lua_CFunction)lua_touserdata(L, lua_upvalueindex(1)))(L);
  int64_t took = now() - began;
  if (took < LEAST_NANOSECONDS) return count;
  cl_held *held = &cl_state_of(L)->held;
  held->name = lua_touserdata(L, lua_upvalueindex(2));
  held->line = cl_place(L, held->source);
  held->began = began;
  held->took = took;
  return count;
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
