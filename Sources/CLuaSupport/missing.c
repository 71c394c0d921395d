// Methods that objects do not have. Who calls one is told which there are; who only reads a field, to find out whether there is one,
// gets nil, as from anything in Lua.
#include "private.h"

// What Lua 5.4 keeps of a call begins like this. Nothing that is public tells `t:read()` from `t.read`.
typedef struct { void *function, *top, *previous, *next; const uint32_t *next_instruction; } lua_frame;
enum { OP_SELF = 20, OPCODE_BITS = 0x7f };

// Whether the code that has led to the running C function says `object:name`.
static int is_self_call(lua_State *L) {
  lua_Debug debug;
  if (!lua_getstack(L, 1, &debug) || !lua_getinfo(L, "S", &debug) || *debug.what == 'C') return 0;
  const lua_frame *frame = (const lua_frame *)debug.i_ci;
  return (frame->next_instruction[-1] & OPCODE_BITS) == OP_SELF;
}

static int yes(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}

static int probe(lua_State *L) {
  if (is_self_call(L)) lua_pushcfunction(L, yes);
  else lua_pushboolean(L, 0);
  return 1;
}

// Whether `is_self_call` tells the truth in the Lua that is loaded here: it is tried.
static int tells_calls(lua_State *L) {
  static const char text[] = "local o = ... local read = o.x return o:x() and not read and not o.y";
  if (lua_version(L) != 504) return 0;
  int top = lua_gettop(L);
  int tells = luaL_loadbuffer(L, text, sizeof text - 1, CL_SOURCE) == LUA_OK;
  if (tells) {
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, probe);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    tells = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isboolean(L, -1) && lua_toboolean(L, -1);
  }
  lua_settop(L, top);
  return tells;
}

// The __index of a kind's methods: (methods, name). Its upvalues: the kind's name, and what makes the message of that and a name.
static int missing(lua_State *L) {
  cl_host *host = cl_host_of(L);
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  if (!host->tells_calls) host->tells_calls = tells_calls(L) ? 1 : -1;
  if (host->tells_calls < 0 || !is_self_call(L)) return 0;
  luaL_where(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  lua_concat(L, 2);
  return lua_error(L);
}

int cl_on_missing(lua_State *L) {  // (a kind's methods, its name, what makes a message)
  lua_settop(L, 3);
  lua_createtable(L, 0, 1);
  lua_insert(L, 2);
  lua_pushcclosure(L, missing, 2);
  lua_setfield(L, 2, "__index");
  lua_setmetatable(L, 1);
  return 0;
}
