// The parts of the library that are written in Lua, and the functions of the host that they use.
#include "private.h"

#include <string.h>

const char *cl_version(void) { return RLHOST_VERSION; }

// Functions for the Lua-written part ---------------------------------------------------------------------------------

static int in_methods(lua_State *L) {  // (kind name) -> the table of its methods
  cl_state *state = cl_state_of(L);
  const char *name = luaL_checkstring(L, 1);
  for (int i = 0; i < CL_MAX_KINDS; i++) {
    if (!state->kinds[i] || strcmp(state->kinds[i]->name, name) != 0) continue;
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->metatables[i]);
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
  cl_state *state = cl_state_of(L);
  const char *name = luaL_checkstring(L, 1), *value = luaL_checkstring(L, 2);
  for (int i = 0; i < CL_MAX_KINDS; i++) {
    const cl_kind *kind = state->kinds[i];
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

static int finish_framed(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

static int call_framed(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, finish_framed);
  return lua_gettop(L);
}

// (function) -> a C function that calls it. If a script calls the C function as `return f()`, the frame of the C
// function stays on the stack
static int in_framed(lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, call_framed, 1);
  return 1;
}

// Replaces the running function, as a field of `runloop`, by the function that it calls. Costs if removed: 280
// instructions for each call.
static void take_place(lua_State *L) {
  lua_Debug debug;
  luaL_checkstack(L, 6, NULL);
  if (!lua_getstack(L, 0, &debug) || !lua_getinfo(L, "f", &debug)) return;
  int running = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "runloop") == LUA_TTABLE) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      if (lua_rawequal(L, -1, running)) {
        lua_pop(L, 1);
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_rawset(L, -3);
        break;
      }
      lua_pop(L, 1);
    }
  }
  lua_settop(L, running - 1);
}

static int call_lazy(lua_State *L) {
  if (!lua_toboolean(L, lua_upvalueindex(2))) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 1);
    lua_replace(L, lua_upvalueindex(1));
    lua_pushboolean(L, 1);
    lua_replace(L, lua_upvalueindex(2));
    take_place(L);
  }
  return call_framed(L);
}

// (function) -> a C function. At its first call, it calls `function`, which returns another function. It passes all
// calls on to that function
static int in_lazy(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, call_lazy, 2);
  return 1;
}

static int in_has_read_ahead(lua_State *L) {  // (file) -> whether it has buffered bytes
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  lua_pushboolean(L, stream->closef && stream->f->_IO_read_end > stream->f->_IO_read_ptr);
  return 1;
}

static int in_part(lua_State *L) {  // (name) -> the function of a built-in module
  if (cl_load_module(L, luaL_checkstring(L, 1)) != LUA_OK) return lua_error(L);
  return 1;
}

static int p_push_internals(lua_State *L) {
  static const luaL_Reg functions[] = {{"methods", in_methods},
                                       {"kind", in_kind},
                                       {"value", in_value},
                                       {"set_value", in_set_value},
                                       {"value_number", in_value_number},
                                       {"fileno", in_fileno},
                                       {"part", in_part},
                                       {"framed", in_framed},
                                       {"lazy", in_lazy},
                                       {"locals", cl_new_locals},
                                       {"has_read_ahead", in_has_read_ahead},
                                       {"on_missing", cl_on_missing},
                                       {"set_subject", cl_set_subject},
                                       {NULL, NULL}};
  // All modules of a state share one table, so that a module can add functions that others need.
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, functions) == LUA_TTABLE) return 1;
  luaL_newlib(L, functions);
  lua_pushliteral(L, RLHOST_VERSION);
  lua_setfield(L, -2, "version");
  cl_push_loaded_parts(L);
  lua_setfield(L, -2, "loaded");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, functions);
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
