// Methods that objects do not have. A call of one raises an error that lists the methods there are; a read of the
// field, by which a script may find out whether it exists, returns nil as for any table.
//
// Costs if removed: the 20 kinds of objects would lose the list of methods in the error of a misspelt one.
#include "private.h"

// The beginning of Lua 5.4's private record of a call. Nothing public distinguishes `t:read()` from `t.read`.
typedef struct {
  void *function, *top, *previous, *next;
  const uint32_t *next_instruction;
} lua_frame;
enum { OP_SELF = 20, OPCODE_BITS = 0x7f };

// Whether the code that called the running C function says `object:name`.
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

// Tries out whether `is_self_call` works in the Lua that is loaded here.
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

// The registry keeps the function that makes the message under this address.
static const char message = 0;

// The __index of a kind's methods: (methods, name). Its upvalue is the kind's name.
static int missing(lua_State *L) {
  cl_state *state = cl_state_of(L);
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  if (!state->tells_calls) state->tells_calls = tells_calls(L) ? 1 : -1;
  if (state->tells_calls < 0 || !is_self_call(L)) return 0;
  luaL_where(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &message);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 1);
  lua_call(L, 3, 1);
  lua_concat(L, 2);
  return lua_error(L);
}

// Expects the methods on top of the stack.
static void set_missing(lua_State *L, const char *kind) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, kind);
  lua_pushcclosure(L, missing, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

void cl_watch_missing(lua_State *L, const char *kind) {
  int is_wanted = lua_rawgetp(L, LUA_REGISTRYINDEX, &message) == LUA_TFUNCTION;
  lua_pop(L, 1);
  if (is_wanted) set_missing(L, kind);
}

int cl_on_missing(lua_State *L) {
  if (lua_istable(L, 1)) {
    lua_pushvalue(L, 1);
    cl_watch_missing(L, luaL_checkstring(L, 2));
    return 0;
  }
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &message);
  cl_state *state = cl_state_of(L);
  for (int i = 0; i < CL_MAX_KINDS; i++) {
    if (!state->kinds[i]) continue;
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->metatables[i]);
    lua_getfield(L, -1, "__index");
    set_missing(L, state->kinds[i]->name);
    lua_settop(L, 0);
  }
  return 0;
}
