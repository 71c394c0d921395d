// Between the C files of this target. Raising is allowed: for use inside Lua calls only.
#pragma once

#include "CLuaSupport.h"

#include <string.h>

/// What the Lua-written part of the host is called.
#define CL_SOURCE "=[rlhost]"
static inline int cl_is_hosts(const lua_Debug *debug) {
  // Most sources are files: they begin with something else.
  return debug->source[0] == CL_SOURCE[0] && strcmp(debug->source, CL_SOURCE) == 0;
}

/// A coroutine of the script's own that somebody resumes now.
struct cl_resumption {
  lua_State *coroutine, *from;
  struct cl_resumption *outer;
};
typedef struct cl_resumption cl_resumption;

/// A state's allocator (lua_Alloc), with its host for data.
void *cl_allocate(void *data, void *old, size_t old_size, size_t new_size);
/// Frees what the allocator keeps for more. Nothing is allocated any more.
void cl_free_slabs(cl_host *host);

void cl_push_parcel(lua_State *L, int first, const cl_entry *entry);
void cl_push_name(lua_State *L, const cl_entry *entry);  ///< as scripts write it
void cl_run_program(lua_State *L, const char *p, const char *end, int objects);
void cl_push_box(lua_State *L, uint32_t kind, void *shared);

/// Puts the host's own functions into the libraries, which are open.
void cl_replace_functions(lua_State *L);

/// No room on the stack: takes the arguments off, puts nil in their place as an error value would be, returns LUA_ERRMEM.
int cl_no_room(lua_State *L, int arguments);

/// No interruption has been raised in this state. Raises nothing but for lack of memory, and that only the first time.
void cl_prepare_failures(lua_State *L);
/// The string on top of the stack is the error value of an interruption.
void cl_note_interruption(lua_State *L);
/// Raises "interrupted!", with the position, so that `cl_is_interruption` knows it.
int cl_raise_interruption(lua_State *L);

/// A coroutine is about to run: a signal that came for another one is for this one.
void cl_pass_interrupt(cl_host *host, lua_State *L);
/// The host is gone: signals have nobody to interrupt.
void cl_drop_signals(cl_host *host);
