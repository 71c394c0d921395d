// Runs the programs that describe values from another state, or from Swift.
#include "private.h"

#include <stdlib.h>

static void remember(lua_State *L, int objects, lua_Integer *number) {
  if (!objects) return;
  lua_pushvalue(L, -1);
  lua_rawseti(L, objects, ++*number);
}

// Pushes the value at a path such as "string\0format": a module's name, and the names of fields.
static void push_named(lua_State *L, const char *p, const char *end) {
  const char *module = p;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, module) == LUA_TNIL) {
    lua_pop(L, 1);
    // The name may be that of a private part, which only the host's `require` finds.
    if (strncmp(module, "runloop.", 8) == 0) cl_push_require(L);
    else lua_getglobal(L, "require");
    lua_pushstring(L, module);
    lua_call(L, 1, 1);
  }
  lua_remove(L, -2);
  for (p += strlen(p) + 1; p < end; p += strlen(p) + 1) {
    if (lua_type(L, -1) != LUA_TTABLE) break;
    lua_pushstring(L, p);
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  if (lua_isnil(L, -1)) luaL_error(L, "module '%s' has something here that it lacks in the other thread", module);
}

// Runs an instruction of the kind that occurs only in parcels. Returns the address of the next instruction.
static const char *run_parcel_instruction(lua_State *L, char tag, const char *p, int objects, lua_Integer *number) {
  uint32_t a;
  uint64_t length;
  switch (tag) {
    case CL_BOX:
      luaL_checkstack(L, 6, NULL);
      memcpy(&a, p, 4);
      memcpy(&length, p + 4, 8);
      p += 12;
      cl_push_box(L, a, (void *)(uintptr_t)length);
      break;
    case CL_REFERENCE:
      luaL_checkstack(L, 4, NULL);
      memcpy(&a, p, 4);
      p += 4;
      lua_rawgeti(L, objects, (lua_Integer)a);
      break;
    case CL_FUNCTION: {
      luaL_checkstack(L, 4, NULL);
      memcpy(&length, p, 8);
      p += 8;
      // "b": bytecode that this program has dumped itself; bytes from outside never come here.
      if (luaL_loadbufferx(L, p, length, "=function", "b") != LUA_OK) lua_error(L);
      p += length;
      remember(L, objects, number);
      break;
    }
    case CL_UPVALUE: lua_setupvalue(L, -2, (unsigned char)*p++); break;
    case CL_JOIN:
      luaL_checkstack(L, 4, NULL);
      memcpy(&a, p + 1, 4);
      lua_rawgeti(L, objects, (lua_Integer)a);
      lua_upvaluejoin(L, -2, (unsigned char)p[0], -1, (unsigned char)p[5]);
      lua_pop(L, 1);
      p += 6;
      break;
    case CL_NAMED:
      luaL_checkstack(L, 6, NULL);
      memcpy(&length, p, 8);
      p += 8;
      push_named(L, p, p + length);
      p += length;
      break;
    default: luaL_error(L, "rlhost: damaged result program");
  }
  return p;
}

// Runs the program at `p`, and leaves the values that it pushes. The caller keeps the bytes alive. Stores tables and
// functions by number in the table at index `objects`, for references, unless that is 0.
void cl_run_program(lua_State *L, const char *p, const char *end, int objects) {
  lua_Integer number_of_objects = 0;
  while (p < end) {
    uint32_t a, b;
    uint64_t length;
    lua_Integer integer;
    lua_Number number;
    char tag = *p++;
    switch (tag) {
      case CL_NIL:
        luaL_checkstack(L, 4, NULL);
        lua_pushnil(L);
        break;
      case CL_FALSE:
        luaL_checkstack(L, 4, NULL);
        lua_pushboolean(L, 0);
        break;
      case CL_TRUE:
        luaL_checkstack(L, 4, NULL);
        lua_pushboolean(L, 1);
        break;
      case CL_INTEGER:
        luaL_checkstack(L, 4, NULL);
        memcpy(&integer, p, 8);
        p += 8;
        lua_pushinteger(L, integer);
        break;
      case CL_NUMBER:
        luaL_checkstack(L, 4, NULL);
        memcpy(&number, p, 8);
        p += 8;
        lua_pushnumber(L, number);
        break;
      case CL_TEXT:
        luaL_checkstack(L, 4, NULL);
        memcpy(&length, p, 8);
        p += 8;
        lua_pushlstring(L, p, length);
        p += length;
        break;
      case CL_TABLE:
        luaL_checkstack(L, 4, NULL);
        memcpy(&a, p, 4);
        memcpy(&b, p + 4, 4);
        p += 8;
        lua_createtable(L, (int)a, (int)b);
        remember(L, objects, &number_of_objects);
        break;
      case CL_SET: lua_rawset(L, -3); break;
      case CL_APPEND: lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1); break;
      case CL_ANCHORED:
        luaL_checkstack(L, 4, NULL);
        memcpy(&a, p, 4);
        p += 4;
        lua_rawgeti(L, LUA_REGISTRYINDEX, cl_state_of(L)->anchors);
        lua_rawgeti(L, -1, a);
        lua_remove(L, -2);
        break;
      default: p = run_parcel_instruction(L, tag, p, objects, &number_of_objects);
    }
  }
}

static int p_unpack(lua_State *L) {
  const cl_parcel *parcel = lua_touserdata(L, 1);
  int objects = 0;
  lua_settop(L, 0);
  if (parcel->has_references) {
    lua_createtable(L, (int)parcel->numbered, 0);
    objects = 1;
  }
  cl_run_program(L, parcel->bytes, parcel->bytes + parcel->length, objects);
  return lua_gettop(L) - objects;
}

int cl_unpack(lua_State *L, const cl_parcel *parcel) {
  if (!lua_checkstack(L, parcel->count + 24)) return cl_no_room(L, 0);
  lua_pushlightuserdata(L, (void *)parcel);
  return cl_call_protected(L, p_unpack, 1, LUA_MULTRET);
}

// First copies the whole program into a string: making values may collect garbage, and a finalizer may overwrite the
// scratch buffer.
static void decode(lua_State *L, const char *bytes, size_t count) {
  lua_pushlstring(L, bytes, count);
  size_t length;
  const char *p = lua_tolstring(L, -1, &length);
  int program = lua_gettop(L);
  cl_run_program(L, p, p + length, 0);
  lua_remove(L, program);
}

void cl_decode_scratch(lua_State *L) {
  cl_state *state = cl_state_of(L);
  decode(L, state->scratch, state->length);
}

static int p_decode(lua_State *L) {
  const cl_taken *taken = lua_touserdata(L, 1);
  decode(L, taken->bytes, taken->length);
  return 1;
}

int cl_decode(lua_State *L) {
  if (!lua_checkstack(L, 24)) return cl_no_room(L, 0);
  cl_state *state = cl_state_of(L);
  cl_taken taken = cl_take_scratch(state);
  lua_pushlightuserdata(L, &taken);
  int status = cl_call_protected(L, p_decode, 1, 1);
  cl_return_scratch(state, taken);
  return status;
}
