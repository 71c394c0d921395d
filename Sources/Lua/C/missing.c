// Calls of methods and functions that do not exist. Such a call raises an error that suggests the intended name. A
// plain read of a missing field returns nil, as for any table, since scripts test in this way whether a function
// exists.
//
// Costs if removed: a misspelt method or function raises "attempt to call a nil value", without the right name.
#include "private.h"

// Lua 5.4's private record of a call. Nothing public distinguishes `t:read()` from `t.read`, and lua_getinfo would cost
// more than the rest of a read.
typedef struct {
  void *function, *top, *previous, *next;
  const uint32_t *next_instruction;
  void *more[2];
  int number;
  short results;
  unsigned short status;
} lua_frame;
enum { IS_C = 2 };

// The instructions of Lua 5.4 that matter here. The number is in the lowest 7 bits, the first register in the 8 bits
// after it.
enum {
  OP_GETTABUP = 11,
  OP_GETTABLE = 12,
  OP_GETFIELD = 14,
  OP_SELF = 20,
  OP_JMP = 56,
  OP_CALL = 68,
  OP_TAILCALL = 69,
  OP_RETURN = 70,
  OP_RETURN1 = 72,
  OP_EXTRAARG = 82,
  MOST_INSTRUCTIONS = 1000
};
static int operation_of(uint32_t instruction) { return instruction & 0x7f; }
static int register_of(uint32_t instruction) { return instruction >> 7 & 0xff; }

// Whether the value that the instruction before `next` reads into a register is called, and not used in another way
// before that. A call's arguments are in the registers after the function's register.
static int is_called(const uint32_t *next) {
  int wanted = register_of(next[-1]);
  for (int i = 0; i < MOST_INSTRUCTIONS; i++) {
    int operation = operation_of(next[i]);
    if (operation >= OP_RETURN && operation <= OP_RETURN1) return 0;
    if (operation == OP_JMP || operation == OP_EXTRAARG) continue;
    int is_call = operation == OP_CALL || operation == OP_TAILCALL;
    if (register_of(next[i]) == wanted) return is_call;
    if (is_call && register_of(next[i]) < wanted) return 0;
  }
  return 0;
}

// Returns the instruction after the one that runs in the Lua function at a level; NULL for a C function.
static const uint32_t *next_at(lua_State *L, int level, lua_Debug *debug) {
  if (!lua_getstack(L, level, debug)) return NULL;
  const lua_frame *frame = (const lua_frame *)debug->i_ci;
  return frame->status & IS_C ? NULL : frame->next_instruction;
}

static int is_call_before(const uint32_t *next) {
  int operation = operation_of(next[-1]);
  return operation == OP_SELF || (operation >= OP_GETTABUP && operation <= OP_GETFIELD && is_called(next));
}

// Whether the code that called the running C function has the form `object:name` or `module.name(…)`. Between that code
// and this function there may be an `__index` of the host that ends with `return methods[name]`.
static int is_call(lua_State *L) {
  lua_Debug debug;
  const uint32_t *next = next_at(L, 1, &debug);
  if (!next) return 0;
  if (is_call_before(next)) return lua_getinfo(L, "S", &debug) && !cl_is_hosts(&debug);
  int following = operation_of(*next);
  if (operation_of(next[-1]) != OP_GETTABLE || following < OP_RETURN || following > OP_RETURN1) return 0;
  if (!lua_getinfo(L, "S", &debug) || !cl_is_hosts(&debug)) return 0;
  return (next = next_at(L, 2, &debug)) && is_call_before(next);
}

static int yes(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}

static int probe(lua_State *L) {
  if (is_call(L)) lua_pushcfunction(L, yes);
  else lua_pushboolean(L, 0);
  return 1;
}

// Tests whether `is_call` works with the Lua version that is in use.
static int tells_calls(lua_State *L) {
  static const char text[] =
      "local o = ... local read = o.x local t = {o.x, y = o.x} "
      "return o:x() and o.x() and o.x(o, o.x, {o.x}) and not read and not o.y and not t[1] and not t.y";
  int top = lua_gettop(L);
  int tells = luaL_loadbuffer(L, text, sizeof text - 1, "=calls") == LUA_OK;
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

// Pushes the message about a name that does not exist. Replaces the table of existing names, which is on top of the
// stack, by the message.
static void push_message(lua_State *L, const char *owner, const char *name) {
  cl_push_require(L);
  lua_pushliteral(L, "runloop.hints");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "missing");
  lua_replace(L, -2);
  lua_pushstring(L, owner);
  lua_pushstring(L, name);
  lua_rotate(L, -4, -1);
  lua_call(L, 3, 1);
}

// The last missing names that were read from modules without a call. If such a nil value is called later, Lua's error
// does not mention the module.
static _Thread_local struct {
  const cl_state *state;
  char owner[32], name[32];
} reads[4];
static _Thread_local unsigned count_of_reads;

static void note_read(const cl_state *state, const char *owner, const char *name) {
  if (!owner || strncmp(owner, "runloop", 7) != 0 || strlen(owner) >= 32 || strlen(name) >= 32) return;
  unsigned place = count_of_reads++ % 4;
  reads[place].state = state;
  strcpy(reads[place].owner, owner);
  strcpy(reads[place].name, name);
}

// (owner, name) -> the message about it, if the module is loaded
static int p_hint(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, -2) != LUA_TTABLE) return 0;
  push_message(L, lua_tostring(L, 1), lua_tostring(L, 2));
  return 1;
}

int cl_push_hint(lua_State *L, const char *message) {
  static const char nil[] = "attempt to call a nil value (", *const kinds[] = {"local '", "upvalue '", "global '"};
  const char *name = strstr(message, nil), *end = NULL;
  for (size_t i = 0; name && i < 3 && !end; i++) {
    const size_t length = strlen(kinds[i]);
    if (strncmp(name + sizeof nil - 1, kinds[i], length) != 0) continue;
    name += sizeof nil - 1 + length;
    end = strchr(name, '\'');
  }
  for (int i = 0; end && i < 4; i++) {
    const size_t length = strlen(reads[i].name);
    if (reads[i].state != cl_state_of(L) || length != (size_t)(end - name)) continue;
    if (length == 0 || memcmp(reads[i].name, name, length) != 0) continue;
    lua_pushcfunction(L, p_hint);
    lua_pushstring(L, reads[i].owner);
    lua_pushstring(L, reads[i].name);
    // Give the hint only if it suggests a name: a list of all names would not help here.
    if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_isstring(L, -1) && strstr(lua_tostring(L, -1), "did you mean")) return 1;
    lua_pop(L, 1);
  }
  return 0;
}

// The __index of methods, and of modules: (methods, name). The function's upvalue is the name of the kind or the
// module.
static int missing(lua_State *L) {
  cl_state *state = cl_state_of(L);
  if (lua_type(L, 2) != LUA_TSTRING || !lua_istable(L, 1) || !state->openers || state->closing) return 0;
  if (state->tells_calls < 0 || lua_version(L) != 504 || !is_call(L)) {
    note_read(state, lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, 2));
    return 0;
  }
  if (!state->tells_calls) state->tells_calls = tells_calls(L) ? 1 : -1;
  if (state->tells_calls < 0) return 0;
  luaL_checkstack(L, 10, NULL);
  cl_push_position(L);
  lua_pushvalue(L, 1);
  push_message(L, lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, 2));
  lua_concat(L, 2);
  return lua_error(L);
}

void cl_watch_missing(lua_State *L, const char *name) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, name);
  lua_pushcclosure(L, missing, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

int cl_on_missing(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *name = luaL_checkstring(L, 2);
  if (lua_getmetatable(L, 1)) return 0;
  lua_pushvalue(L, 1);
  cl_watch_missing(L, name);
  return 0;
}
