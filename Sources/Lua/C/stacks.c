// Copies of stacks. The stack of a coroutine is lost when the coroutine fails and its variables are closed, or when it
// goes on after a wait. The text of a traceback costs ten times as much as a copy, and is seldom read, so the text is
// made later, from the copy.
#include "private.h"

#include <stdint.h>
#include <stdio.h>

// Like luaL_traceback: if the stack is deeper, it shows the 10 innermost levels and the 11 outermost ones.
enum { INNER = 10, OUTER = 11, MOST = INNER + OUTER + 1, NAME = 64 };

// A level of the stack. Its source and its name follow the struct in memory, each with a terminating 0.
typedef struct {
  const void *function;   // this pointer is only compared: the function may no longer exist
  const char *name_what;  // one of Lua's own constants
  int line, defined;
  uint8_t what, is_tail, is_hosts, source_size, size;  // the size is counted in words
} frame;

struct cl_stack {
  int count, skipped;  // `skipped` levels are missing after the first INNER frames
  int is_served, has_place;
  int64_t others;  // further references
  uint64_t frames[];
};

static const char *source_of(const frame *frame) { return (const char *)(frame + 1); }
static const char *name_of(const frame *frame) { return source_of(frame) + frame->source_size; }
static const frame *first(const cl_stack *stack) { return (const frame *)stack->frames; }
static const frame *next(const frame *one) { return (const frame *)((const uint64_t *)one + one->size); }

// Returns the number of levels, by bisection: lua_getstack takes time proportional to the level.
static int depth_of(lua_State *L) {
  lua_Debug debug;
  int low = 0, high = MOST + 1;
  if (!lua_getstack(L, MOST, &debug)) {
    while (lua_getstack(L, low, &debug)) low++;
    return low;
  }
  while (lua_getstack(L, high, &debug)) low = high, high *= 2;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (lua_getstack(L, middle, &debug)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Adds a level to the stack. Returns the level's size in words.
static size_t fill(lua_State *L, cl_stack *stack, uint64_t *at, lua_Debug *debug) {
  frame *one = (frame *)at;
  lua_getinfo(L, "Slntf", debug);
  one->function = lua_topointer(L, -1);
  lua_pop(L, 1);
  one->name_what = debug->namewhat;
  one->line = debug->currentline;
  one->defined = debug->linedefined;
  one->what = (uint8_t)*debug->what;
  one->is_tail = (uint8_t)debug->istailcall;
  one->is_hosts = (uint8_t)cl_is_hosts(debug);
  size_t source = strlen(debug->short_src) + 1, name = debug->name ? strnlen(debug->name, NAME - 1) : 0;
  char *text = (char *)(one + 1);
  memcpy(text, debug->short_src, source);
  if (name) memcpy(text + source, debug->name, name);
  text[source + name] = 0;
  one->source_size = (uint8_t)source;
  one->size = (uint8_t)((sizeof *one + source + name + 8) / 8);
  stack->count++;
  stack->is_served = one->is_hosts;
  stack->has_place |= one->line > 0 && !one->is_hosts;
  return one->size;
}

cl_stack *cl_take_stack(lua_State *L) {
  enum { MOST_WORDS = MOST * ((sizeof(frame) + LUA_IDSIZE + NAME) / 8 + 1) };
  uint64_t buffer[sizeof(cl_stack) / 8 + MOST_WORDS];
  cl_stack *taken = (cl_stack *)buffer;
  if (!lua_checkstack(L, 2)) return NULL;
  int depth = depth_of(L), is_cut = depth > MOST, count = is_cut ? INNER + OUTER : depth;
  *taken = (cl_stack){.skipped = is_cut ? depth - count : 0};
  size_t size = 0;
  lua_Debug debug;
  for (int i = 0; i < count; i++)
    if (lua_getstack(L, is_cut && i >= INNER ? depth - count + i : i, &debug))
      size += fill(L, taken, taken->frames + size, &debug);
  cl_stack *stack = malloc(sizeof *stack + size * 8);
  return stack ? memcpy(stack, taken, sizeof *stack + size * 8) : NULL;
}

void cl_keep_stack(cl_stack *stack) { stack->others++; }
void cl_drop_stack(cl_stack *stack) {
  if (stack->others-- == 0) free(stack);
}

const char *cl_place_of_stack(const cl_stack *stack, int *line) {
  const frame *frame = first(stack);
  for (int i = 0; i < stack->count; i++, frame = next(frame)) {
    if (frame->line <= 0 || frame->is_hosts) continue;
    *line = frame->line;
    return source_of(frame);
  }
  return NULL;
}

int cl_is_served(const cl_stack *stack) { return stack->is_served; }
int cl_has_place(const cl_stack *stack) { return stack->has_place; }

// Whether the function on top of the stack is the frame's function, and not a later function at the same address.
static int is_function(lua_State *L, const frame *frame) {
  lua_Debug debug;
  if (lua_topointer(L, -1) != frame->function || !lua_isfunction(L, -1)) return 0;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &debug);
  return debug.linedefined == frame->defined && strcmp(debug.short_src, source_of(frame)) == 0;
}

// Writes the key under which the function is in the table on top of the stack, or in a table within that table. Returns
// whether a name was found.
static int find_name(lua_State *L, const frame *frame, int levels, char *name, size_t size) {
  if (levels == 0 || !lua_istable(L, -1)) return 0;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      const char *key = lua_tostring(L, -2);
      char rest[NAME];
      int is = is_function(L, frame);
      if (is) snprintf(name, size, "%s", key);
      else if (find_name(L, frame, levels - 1, rest, sizeof rest)) is = snprintf(name, size, "%s.%s", key, rest) > 0;
      if (is) {
        lua_pop(L, 2);
        return 1;
      }
    }
    lua_pop(L, 1);
  }
  return 0;
}

// Pushes one line as luaL_traceback writes it.
static void push_line(lua_State *L, const frame *frame) {
  char found[2 * NAME], *name = found;
  if (frame->line > 0) lua_pushfstring(L, "%s:%d: in ", source_of(frame), frame->line);
  else lua_pushfstring(L, "%s: in ", source_of(frame));
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  int is_global = find_name(L, frame, 2, found, sizeof found);
  lua_pop(L, 1);
  if (is_global) {
    if (strncmp(name, "_G.", 3) == 0) name += 3;
    lua_pushfstring(L, "function '%s'", name);
  } else if (*frame->name_what) {
    lua_pushfstring(L, "%s '%s'", frame->name_what, name_of(frame));
  } else if (frame->what == 'm') {
    lua_pushliteral(L, "main chunk");
  } else if (frame->what != 'C') {
    lua_pushfstring(L, "function <%s:%d>", source_of(frame), frame->defined);
  } else {
    lua_pushliteral(L, "?");
  }
  lua_concat(L, 2);
}

// (stack): writes the stack's lines into the scratch buffer.
static int p_show_stack(lua_State *L) {
  const cl_stack *stack = lua_touserdata(L, 1);
  cl_state *state = cl_state_of(L);
  const frame *frame = first(stack);
  for (int i = 0; i < stack->count; i++, frame = next(frame)) {
    if (i == INNER && stack->skipped) {
      const char *text = lua_pushfstring(L, "...\t(skipping %d levels)\n", stack->skipped);
      cl_write(state, text, strlen(text));
    }
    push_line(L, frame);
    cl_write(state, lua_tostring(L, -1), strlen(lua_tostring(L, -1)));
    cl_write(state, "\n", 1);
    if (frame->is_tail && !frame->is_hosts) cl_write(state, "(...tail calls...)\n", 19);
    lua_settop(L, 1);
  }
  return 0;
}

void cl_show_stack(lua_State *L, const cl_stack *stack) {
  cl_reset(cl_state_of(L));
  if (!lua_checkstack(L, 24)) return;
  lua_pushlightuserdata(L, (void *)stack);
  if (cl_call_protected(L, p_show_stack, 1, 0) != LUA_OK) lua_pop(L, 1);
}
