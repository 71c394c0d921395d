// Between the C files of this target. Raising is allowed: for use inside Lua calls only.
#pragma once

#include "CLuaSupport.h"

#include <LuaModules.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/// What the Lua-written part of the host is called.
#define CL_SOURCE LUA_MODULES_SOURCE
static inline int cl_is_hosts(const lua_Debug *debug) {
  // Most sources are files: they begin with something else.
  return debug->source[0] == CL_SOURCE[0] && strcmp(debug->source, CL_SOURCE) == 0;
}

/// Room for `more` bytes behind the first `length`; for `least` at first. Returns whether there was memory for it.
static inline int cl_reserve(char **bytes, size_t length, size_t *capacity, size_t more, size_t least) {
  if (length + more <= *capacity) return 1;
  size_t larger = *capacity ? *capacity : least;
  while (larger < length + more) larger *= 2;
  char *moved = realloc(*bytes, larger);
  if (!moved) return 0;
  *bytes = moved;
  *capacity = larger;
  return 1;
}

/// (object, text): what messages call it while a function of the host's runs whose first local variable it is.
int cl_set_subject(lua_State *L);

/// How many calls by cl_call_protected are under way in this thread.
extern _Thread_local int cl_own_calls;

/// A coroutine of the script's own that somebody resumes now.
struct cl_resumption {
  lua_State *coroutine, *from;
  struct cl_resumption *outer;
};
typedef struct cl_resumption cl_resumption;

/// A state's allocator (lua_Alloc), with its host for data.
void *cl_allocate(void *data, void *old, size_t old_size, size_t new_size);
void *cl_allocate_plainly(void *data, void *old, size_t old_size, size_t new_size);
/// What tells a thread from all others, for an instruction.
static inline void *cl_this_thread(void) { return __builtin_thread_pointer(); }
/// A new state with one of these allocators; with a fixed seed if that was asked for.
lua_State *cl_new_state(cl_state *state, lua_Alloc allocate);
/// Memory at an address, if it is free there; NULL otherwise.
void *cl_map_at(uintptr_t address, size_t size);
/// A block of so many bytes whose address depends only on how many of its kind are in use, and what frees it. From there on, no such
/// block begins below CL_SLOTS_BEGIN: between what programs and libraries use on machines with 47 bits of addresses.
#define CL_SLOTS_BEGIN ((uintptr_t)0x5e0000000000)
#define CL_SLOT ((size_t)16000)
void *cl_take_slot(void);
void cl_free_slot(void *block);
/// Frees what the allocator keeps for more. Nothing is allocated any more.
void cl_free_slabs(cl_state *state);

/// Whether a frame is the script's own: no C function, and not of the Lua-written part of the host. Fills in "Sl".
int cl_is_scripts(lua_State *L, lua_Debug *debug);
typedef struct cl_sites cl_sites;
cl_sites *cl_new_sites(void);
void cl_free_sites(cl_sites *sites);

// The rest raises.
/// The function's name as scripts write it.
void cl_push_name(lua_State *L, const cl_entry *entry);
/// Pushes the userdata for what is shared, made if there is none.
void cl_push_box(lua_State *L, uint32_t kind, void *shared);
/// Runs a program of cl_tag; `objects` is the index of the table of what references mean, or 0.
void cl_run_program(lua_State *L, const char *p, const char *end, int objects);
/// Pushes the values that the scratch buffer describes.
void cl_decode_scratch(lua_State *L);
/// Pushes the table of what crosses by name: from the value to its module's name and the way from there, separated by NUL.
void cl_push_names(lua_State *L);
/// Whether what a hook has seen is Swift's own call, which is not to be ended.
int cl_is_own_call(lua_State *L, lua_Debug *debug);
/// Sets the hook that a coroutine has if nobody wants anything of it in particular: that of a running line count, that of all tasks,
/// or none.
void cl_set_usual_hook(lua_State *L);
/// Has lines and calls counted by a hook, which coroutines have that are made from now on; NULL: no more.
void cl_count_with(lua_Hook hook);
/// A hook takes the place of a coroutine's own at its next instruction, in a signal handler too; `guard` is none of the script's either.
void cl_displace_hook(lua_State *L, lua_Hook hook, lua_Hook guard);
/// The coroutine's own is back in its place; or forgotten.
void cl_give_hook_back(lua_State *L);
void cl_forget_hook(void);
/// A coroutine of the host's runs a chunk, from now on or not any more: the hooks it sets are for all.
void cl_chunk_runs(lua_State *L, int runs);
/// Puts the host's own functions into the library `debug`, which is open.
void cl_replace_hooks(lua_State *L);

// collector.c
/// Puts the host's collectgarbage in the place of Lua's; the library is open.
void cl_replace_collector(lua_State *L);
/// The mode in which scripts begin.
void cl_collect_generations(lua_State *L);

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
void cl_pass_interrupt(cl_state *state, lua_State *L);
/// Lua code is about to be interrupted on the thread that signals are for.
int cl_has_interrupt(void);
/// The host is gone: signals have nobody to interrupt.
void cl_drop_signals(cl_state *state);

/// Pushes the position of the script's innermost line as errors begin with it, or an empty text.
void cl_push_position(lua_State *L);

// missing.c
/// For the Lua-written part. (function) -> from now on calls of methods that there are not are answered with the message that it
/// makes of a kind's name, the method's, and the kind's methods; for objects of all kinds, also of those made known later.
/// (methods, name) -> also for those of a kind that is made of tables.
int cl_on_missing(lua_State *L);
/// The same for a kind's methods, on top of the stack.
void cl_watch_missing(lua_State *L, const char *kind);

// guard.c
/// Calls are looked at, because an interruption was raised inside of what catches errors.
extern _Thread_local int cl_is_guarding;
/// An interruption is about to be raised; `raise` does so again where a loop catches it.
void cl_guard(lua_State *L, lua_CFunction raise);
/// The hook of the coroutines that run while `cl_is_guarding`.
void cl_on_guarded_call(lua_State *L, lua_Debug *debug);

// ending.c
/// Ends the process with an exit status. Not in a signal handler.
_Noreturn void cl_end(int status);
/// Says the last words, and has the signal do what it does by default.
void cl_end_by(int number);
/// SIGTERM comes to this thread in so many seconds.
void cl_wake_in(int seconds);
void cl_wake_in_milliseconds(int milliseconds);

// entries.c
/// The entry that runs is not to go on.
int cl_entry_is_unwanted(void);
/// How hard it is to be pressed, if it is not; see `cl_end_entries`.
int cl_pressure_on_entry(void);
uint64_t cl_exchange_entry(uint64_t entry);
void cl_want_end_of_entry(uint64_t entry);
/// The entry that runs, if it is one of these, is not to go on; see `cl_end_entries`. Returns whether it is.
int cl_press_entries(uint64_t first, uint64_t last, int how_hard);
/// Takes the message handlers out of the way of an error.
void cl_disarm_handlers(lua_State *L);
int cl_has_wishes(void);
/// Prints a text to standard error without anything that commands a terminal: see `String.shown` in Linux.
void cl_print_shown(const char *text, size_t limit);
/// In the signal handler of a thread that is being cancelled: notes the call that runs. `is_new`: an earlier cancel has been noticed.
void cl_note_call(lua_State *L, int is_new);
/// In the signal handler: answers `cl_where_cancelled`, if the signal is its question. `is_pending`: Lua has not noticed the cancel.
int cl_answer_where(cl_state *state, const siginfo_t *info, int is_pending);
/// Safe in a signal handler.
void cl_note_wish(unsigned wish);
/// Ends the process if its standard output has failed because nobody reads it any more.
void cl_end_if_nobody_reads(void);
/// Has them granted; returns which those were.
unsigned cl_fulfil_wishes(cl_state *state);
