// Packs values for another state. If a value cannot be packed, the error names the path to it.
#include "private.h"

#include <stdio.h>
#include <stdlib.h>

// The path to the value that is being packed, for messages.
typedef struct step {
  const struct step *outer;
  enum { ARGUMENT, RESULT, FIELD, FIELD_AT, KEY, UPVALUE } what;
  const char *name;    // UPVALUE; FIELD with a string key; FIELD_AT: the type of the key
  lua_Integer number;  // ARGUMENT, RESULT; FIELD with an integer key
} step;

// A table from addresses to numbers, for tables, functions and upvalues. These objects live at least until the packing
// ends.
typedef struct seen {
  const void *address;
  uint64_t number;
} seen;

enum { FEW = 8, NAMES = 2 };

typedef struct packer {
  lua_State *L;
  cl_parcel *parcel;
  seen few[FEW];  // nearly always enough
  seen *many;     // a table with open addressing
  uint32_t count, mask;
  int has_names;  // index NAMES holds the table of values that cross by name
  int depth;
  const cl_entry *entry;  // the function whose arguments are packed, or NULL
} packer;

static seen *place_in(seen *table, uint32_t mask, const void *address) {
  uint32_t at = (uint32_t)(((uint64_t)(uintptr_t)address >> 4) * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (table[at].address && table[at].address != address) at = (at + 1) & mask;
  return &table[at];
}

// Returns a pointer to an object's number. The number is 0 if the object has none yet.
static uint64_t *number_of(packer *p, const void *address) {
  if (!p->many) {
    for (uint32_t i = 0; i < p->count; i++)
      if (p->few[i].address == address) return &p->few[i].number;
    if (p->count < FEW) {
      p->few[p->count] = (seen){address, 0};
      return &p->few[p->count++].number;
    }
  }
  if (!p->many || p->count * 2 > p->mask) {
    uint32_t mask = p->many ? p->mask * 2 + 1 : 63;
    seen *larger = calloc(mask + 1, sizeof *larger), *old = p->many ? p->many : p->few;
    if (!larger) luaL_error(p->L, "not enough memory");
    for (uint32_t i = 0; i < (p->many ? p->mask + 1 : FEW); i++)
      if (old[i].address) *place_in(larger, mask, old[i].address) = old[i];
    free(p->many);
    p->many = larger;
    p->mask = mask;
  }
  seen *place = place_in(p->many, p->mask, address);
  if (!place->address) {
    place->address = address;
    p->count++;
  }
  return &place->number;
}

enum { DEEPEST = 5000 };

static void put(packer *p, const void *bytes, size_t length) {
  cl_parcel *parcel = p->parcel;
  if (!cl_reserve(&parcel->bytes, parcel->length, &parcel->capacity, length, 512))
    luaL_error(p->L, "not enough memory");
  memcpy(parcel->bytes + parcel->length, bytes, length);
  parcel->length += length;
}

static void put_tag(packer *p, char tag) { put(p, &tag, 1); }
static void put_u32(packer *p, uint32_t n) { put(p, &n, 4); }
static void put_u64(packer *p, uint64_t n) { put(p, &n, 8); }
static void put_u8(packer *p, uint8_t n) { put(p, &n, 1); }

// Whether the value is the called function. Messages then name its upvalue directly, without "argument #1".
static int is_called(const step *way) { return way->what == ARGUMENT && way->number == 1; }

static void write_way(luaL_Buffer *b, const step *way) {
  char text[96];
  if (way->outer && !(way->what == UPVALUE && is_called(way->outer))) {
    write_way(b, way->outer);
    luaL_addstring(b, " \xE2\x86\x92 ");  // an arrow
  }
  switch (way->what) {
    case ARGUMENT: snprintf(text, sizeof text, "argument #%lld", (long long)way->number); break;
    case RESULT: snprintf(text, sizeof text, "result #%lld", (long long)way->number); break;
    case KEY: snprintf(text, sizeof text, "a key"); break;
    case FIELD_AT: snprintf(text, sizeof text, "field [a %s]", way->name); break;
    case UPVALUE: snprintf(text, sizeof text, "upvalue '%.60s'", way->name); break;
    case FIELD:
      if (way->name) snprintf(text, sizeof text, "field '%.60s'", way->name);
      else snprintf(text, sizeof text, "field [%lld]", (long long)way->number);
  }
  luaL_addstring(b, text);
}

// Raises the message on top of the stack, preceded by the name of the called function and the script's position.
static void raise_message(packer *p) {
  lua_State *L = p->L;
  if (p->entry) {
    cl_push_name(L, p->entry);
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), lua_tostring(L, -2));
  }
  cl_push_position(L);
  lua_insert(L, -2);
  lua_concat(L, 2);
  lua_error(L);
}

static void refuse(packer *p, const step *way, const char *what) {
  lua_State *L = p->L;
  luaL_Buffer b;
  luaL_checkstack(L, 8, NULL);
  lua_pushstring(L, what);
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "cannot send ");
  write_way(&b, way);
  luaL_pushresult(&b);
  lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), what);
  raise_message(p);
}

static void refuse_depth(packer *p) {
  lua_pushfstring(p->L, "values nested more than %d deep cannot be sent: send them in pieces", DEEPEST);
  raise_message(p);
}

// Packs the value at `index` by name if it has one. Returns whether the value has a name.
static int pack_named(packer *p, int index) {
  lua_State *L = p->L;
  if (!p->has_names) {
    cl_push_names(L);
    lua_replace(L, NAMES);
    p->has_names = 1;
  }
  lua_pushvalue(L, index);
  int found = lua_rawget(L, NAMES) == LUA_TSTRING;
  if (found) {
    size_t length;
    const char *path = lua_tolstring(L, -1, &length);
    put_tag(p, CL_NAMED);
    put_u64(p, length);
    put(p, path, length);
  }
  lua_pop(L, 1);
  return found;
}

// Values --------------------------------------------------------------------------------------------------------------

static void pack(packer *p, int index, const step *way);

// If the object has been packed before, packs a reference to it. If not, gives the object a number and returns 0.
static int pack_reference(packer *p, int index) {
  uint64_t *number = number_of(p, lua_topointer(p->L, index));
  if (!*number) {
    *number = ++p->parcel->numbered;
    return 0;
  }
  put_tag(p, CL_REFERENCE);
  put_u32(p, (uint32_t)*number);
  p->parcel->has_references = 1;
  return 1;
}

static void pack_table(packer *p, int index, const step *way) {
  lua_State *L = p->L;
  if (pack_named(p, index)) return;
  // An object of a module has the mark `__stays` in its metatable. Such an object must not be copied, since it is more
  // than its fields.
  if (luaL_getmetafield(L, index, "__stays") != LUA_TNIL) {
    if (luaL_getmetafield(L, index, "__name") != LUA_TSTRING)
      lua_pushliteral(L, "an object that belongs to its thread");
    else if (way->what == ARGUMENT && strcmp(lua_tostring(L, -1), "channel") == 0)
      lua_pushliteral(L, "channel (a port can be sent: rl.port makes one)");
    refuse(p, way, lua_tostring(L, -1));
  }
  if (pack_reference(p, index)) return;
  lua_Unsigned array = lua_rawlen(L, index);
  put_tag(p, CL_TABLE);
  put_u32(p, array > 1000000 ? 1000000 : (uint32_t)array);
  put_u32(p, 0);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    int value = lua_gettop(L);
    step key = {way, KEY, NULL, 0};
    pack(p, value - 1, &key);
    step field = {way, FIELD, NULL, 0};
    if (lua_type(L, value - 1) == LUA_TSTRING) field.name = lua_tostring(L, value - 1);
    else if (lua_isinteger(L, value - 1)) field.number = lua_tointeger(L, value - 1);
    else field = (step){way, FIELD_AT, luaL_typename(L, value - 1), 0};
    pack(p, value, &field);
    put_tag(p, CL_SET);
    lua_pop(L, 1);
  }
}

static int write_dump(lua_State *L, const void *bytes, size_t length, void *data) {
  (void)L;
  put(data, bytes, length);
  return 0;
}

static void pack_function(packer *p, int index, const step *way) {
  lua_State *L = p->L;
  if (pack_named(p, index)) return;
  if (lua_iscfunction(L, index)) refuse(p, way, "a C function that no loaded module has");
  if (pack_reference(p, index)) return;
  uint32_t number = p->parcel->numbered;
  put_tag(p, CL_FUNCTION);
  size_t at = p->parcel->length;
  put_u64(p, 0);
  lua_pushvalue(L, index);
  lua_dump(L, write_dump, p, 0);
  uint64_t length = p->parcel->length - at - 8;
  memcpy(p->parcel->bytes + at, &length, 8);
  lua_pop(L, 1);
  for (int i = 1;; i++) {
    const char *name = lua_getupvalue(L, index, i);
    if (!name) break;
    // If two functions share a variable, their copies share it, too.
    uint64_t *other = number_of(p, lua_upvalueid(L, index, i));
    if (*other) {
      put_tag(p, CL_JOIN);
      put_u8(p, (uint8_t)i);
      put_u32(p, (uint32_t)(*other >> 8));
      put_u8(p, (uint8_t)(*other & 255));
      p->parcel->has_references = 1;
      lua_pop(L, 1);
      continue;
    }
    *other = (uint64_t)number << 8 | (uint64_t)i;
    step upvalue = {way, UPVALUE, *name ? name : "(no name)", 0};
    pack(p, lua_gettop(L), &upvalue);
    lua_pop(L, 1);
    put_tag(p, CL_UPVALUE);
    put_u8(p, (uint8_t)i);
  }
}

static void pack_userdata(packer *p, int index, const step *way) {
  lua_State *L = p->L;
  cl_state *state = cl_state_of(L);
  cl_box *box = cl_any_box_at(L, index);
  if (box) {
    int kind = 0;
    while (state->kinds[kind] != box->kind) kind++;
    cl_parcel *parcel = p->parcel;
    if (parcel->shared_count == parcel->shared_capacity) {
      uint32_t capacity = parcel->shared_capacity ? parcel->shared_capacity * 2 : 4;
      void *larger = realloc(parcel->shared, capacity * sizeof *parcel->shared);
      if (!larger) luaL_error(L, "not enough memory");
      parcel->shared = larger;
      parcel->shared_capacity = capacity;
    }
    void *shared = box->object ? state->share(state, kind, box->object) : NULL;
    if (shared) {
      parcel->shared[parcel->shared_count].kind = kind;
      parcel->shared[parcel->shared_count++].object = shared;
      parcel->drop = state->drop;
      // Remember this userdata: if the object is sent back, it is represented by the same userdata.
      lua_rawgeti(L, LUA_REGISTRYINDEX, state->boxes);
      lua_pushvalue(L, index);
      lua_rawsetp(L, -2, shared);
      lua_pop(L, 1);
      put_tag(p, CL_BOX);
      put_u32(p, (uint32_t)kind);
      put_u64(p, (uint64_t)(uintptr_t)shared);
      return;
    }
    refuse(p, way, box->kind->name);
  }
  if (pack_named(p, index)) return;
  if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) refuse(p, way, lua_tostring(L, -1));
  refuse(p, way, "userdata");
}

static void pack(packer *p, int index, const step *way) {
  lua_State *L = p->L;
  if (!lua_checkstack(L, 24)) luaL_error(L, "not enough memory");
  if (++p->depth > DEEPEST) refuse_depth(p);
  switch (lua_type(L, index)) {
    case LUA_TNIL: put_tag(p, CL_NIL); break;
    case LUA_TBOOLEAN: put_tag(p, lua_toboolean(L, index) ? CL_TRUE : CL_FALSE); break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        lua_Integer n = lua_tointeger(L, index);
        put_tag(p, CL_INTEGER);
        put(p, &n, 8);
      } else {
        lua_Number n = lua_tonumber(L, index);
        put_tag(p, CL_NUMBER);
        put(p, &n, 8);
      }
      break;
    case LUA_TSTRING: {
      size_t length;
      const char *text = lua_tolstring(L, index, &length);
      put_tag(p, CL_TEXT);
      put_u64(p, length);
      put(p, text, length);
      break;
    }
    case LUA_TTABLE: pack_table(p, index, way); break;
    case LUA_TFUNCTION: pack_function(p, index, way); break;
    case LUA_TUSERDATA: pack_userdata(p, index, way); break;
    case LUA_TTHREAD: refuse(p, way, "a coroutine"); break;
    default:
      if (!pack_named(p, index)) refuse(p, way, "a light userdata");
  }
  p->depth--;
}

void cl_free_parcel(cl_parcel *parcel) {
  if (!parcel) return;
  for (uint32_t i = 0; i < parcel->shared_count; i++) parcel->drop(parcel->shared[i].object);
  free(parcel->shared);
  free(parcel->bytes);
  free(parcel);
}

// (packer, nil, values…)
static int p_pack(lua_State *L) {
  packer *p = lua_touserdata(L, 1);
  int last = lua_gettop(L);
  for (int index = NAMES + 1; index <= last; index++) {
    // Without an entry, the values are the results of a function.
    step argument = {NULL, p->entry ? ARGUMENT : RESULT, NULL, index - NAMES};
    pack(p, index, &argument);
    p->parcel->count++;
  }
  return 0;
}

cl_parcel *cl_pack(lua_State *L, int first, const cl_entry *entry) {
  int count = lua_gettop(L) - first + 1;
  packer p = {.L = L, .entry = entry, .parcel = calloc(1, sizeof(cl_parcel))};
  if (!p.parcel || !lua_checkstack(L, 24)) {
    free(p.parcel);
    cl_no_room(L, count);
    return NULL;
  }
  lua_pushlightuserdata(L, &p);
  lua_pushnil(L);
  lua_rotate(L, first, 2);
  int status = cl_call_protected(L, p_pack, count + 2, 0);
  free(p.many);
  if (status == LUA_OK) return p.parcel;
  cl_free_parcel(p.parcel);
  return NULL;
}

cl_parcel *cl_take_parcel(lua_State *L) {
  cl_state *state = cl_state_of(L);
  cl_parcel *parcel = state->packed;
  state->packed = NULL;
  return parcel;
}
