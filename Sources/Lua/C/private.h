// Declarations shared by the C files of this target. Functions may raise: call them inside Lua calls only.
#pragma once

#include "CLuaSupport.h"

#include <LuaModules.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/// The source name of the Lua-written part of the host.
#define CL_SOURCE LUA_MODULES_SOURCE
static inline int cl_is_hosts(const lua_Debug *debug) {
  // Most sources are files, and begin with another character.
  return debug->source[0] == CL_SOURCE[0] && strcmp(debug->source, CL_SOURCE) == 0;
}

/// Makes room for `more` bytes after the first `length` bytes. New memory has at least `least` bytes. Returns whether
/// there was memory.
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

/// (object, text): sets the object's name for messages. Messages use it while a function of the host runs whose first
/// local variable is the object.
int cl_set_subject(lua_State *L);

/// The number of cl_call_protected calls in progress in this thread.
extern _Thread_local int cl_own_calls;

/// Pushes the values of an answer that consists of pieces. Returns their number.
int cl_answer_pieces(lua_State *L);

/// A resumption of one of the script's own coroutines.
struct cl_resumption {
  lua_State *coroutine, *from;
  struct cl_resumption *outer;
};
typedef struct cl_resumption cl_resumption;

/// A state's allocator (lua_Alloc); its data is the cl_state.
void *cl_allocate(void *data, void *old, size_t old_size, size_t new_size);
void *cl_allocate_plainly(void *data, void *old, size_t old_size, size_t new_size);
/// Returns a number that identifies the calling thread, in one instruction.
static inline void *cl_this_thread(void) { return __builtin_thread_pointer(); }
/// Makes a state with one of these allocators, and with a fixed seed after cl_fix_seed.
lua_State *cl_new_state(cl_state *state, lua_Alloc allocate);
/// Maps memory at an address, or returns NULL if the address is in use.
void *cl_map_at(uintptr_t address, size_t size);
/// A slot is a block of CL_SLOT bytes. Its address depends only on the number of slots in use. No slot begins below
/// CL_SLOTS_BEGIN: on machines with 47-bit addresses, this address is between the areas that programs and libraries
/// use.
#define CL_SLOTS_BEGIN ((uintptr_t)0x5e0000000000)
/// The contents of the scratch buffer, moved out of the state. If code of the script runs meanwhile, it fills a new
/// buffer.
typedef struct cl_taken {
  char *bytes;
  size_t length, capacity;
} cl_taken;
cl_taken cl_take_scratch(cl_state *state);
void cl_return_scratch(cl_state *state, cl_taken taken);

#define CL_SLOT ((size_t)16000)
void *cl_take_slot(void);
void cl_free_slot(void *block);
/// Frees the memory that the allocator keeps for later blocks. Nothing may be allocated afterwards.
void cl_free_slabs(cl_state *state);

/// Whether a frame is the script's own: neither a C function nor a function of the host's Lua code. Fills in "Sl".
int cl_is_scripts(lua_State *L, lua_Debug *debug);
typedef struct cl_sites cl_sites;
cl_sites *cl_new_sites(void);
void cl_free_sites(cl_sites *sites);

// The functions from here on raise.
/// Pushes the function's name as scripts write it.
void cl_push_name(lua_State *L, const cl_entry *entry);
/// Pushes the userdata for a shared object, and makes it if the state has none.
void cl_push_box(lua_State *L, uint32_t kind, void *shared);
/// Runs a program of cl_tag; `objects` is the index of the table to which references refer, or 0.
void cl_run_program(lua_State *L, const char *p, const char *end, int objects);
/// Pushes the values that the scratch buffer describes.
void cl_decode_scratch(lua_State *L);
/// Pushes the table of values that are sent by name. The keys are the values; each name has the module's name and the
/// path of fields, separated by NUL.
void cl_push_names(lua_State *L);
/// Whether a hook was called for Swift's own call of a function, which must not be interrupted.
int cl_is_own_call(lua_State *L, lua_Debug *debug);
/// Whether the running code is Lua code of the host, which must not be interrupted. For hooks.
int cl_is_in_part(lua_State *L);
/// Sets the default hook of a coroutine: the hook that counts lines, or the hook for all tasks, or none.
void cl_set_usual_hook(lua_State *L);
/// Sets the hook that counts lines and calls in coroutines that are made from now on; NULL for none.
void cl_count_with(lua_Hook hook);
/// Replaces a coroutine's hook from its next instruction on, also in a signal handler. `guard` is another hook of the
/// host: if it is set, it is not remembered as the script's hook.
void cl_displace_hook(lua_State *L, lua_Hook hook, lua_Hook guard);
/// Restores the coroutine's own hook.
void cl_give_hook_back(lua_State *L);
void cl_forget_hook(void);
/// Call it on a thread before its signal handlers call `cl_allow_hooks`.
void cl_prepare_hooks(void);
/// Lets Lua call hooks in a coroutine again, in a finalizer, say. Async-signal-safe.
void cl_allow_hooks(lua_State *L);
/// Notes that one of the host's coroutines begins or ends running a chunk. Hooks that a chunk sets hold for all tasks.
void cl_chunk_runs(lua_State *L, int runs);
/// Replaces functions of the library `debug`, which is open.
void cl_replace_hooks(lua_State *L);

// collector.c
/// Replaces Lua's collectgarbage by the host's; the library is open.
void cl_replace_collector(lua_State *L);
/// Sets the generational mode, in which scripts begin.
void cl_collect_generations(lua_State *L);

/// Replaces functions of Lua's libraries, which are open.
void cl_replace_functions(lua_State *L);
/// If there is a sandbox, replaces the functions that it changes.
void cl_replace_for_sandbox(lua_State *L);
/// The kinds of chunks that scripts may be: NULL for all, "t" for text.
extern const char *cl_chunk_mode;

/// Called if the stack cannot grow: replaces the arguments by nil, as the error value, and returns LUA_ERRMEM.
int cl_no_room(lua_State *L, int arguments);

/// Resets the record of interruptions. Raises only for lack of memory, and only at the first call.
void cl_prepare_failures(lua_State *L);
/// Records the string on top of the stack as the error value of an interruption.
void cl_note_interruption(lua_State *L);
/// Raises "interrupted!" with the position, so that `cl_is_interruption` recognizes it.
int cl_raise_interruption(lua_State *L);

/// Hands a pending signal to the coroutine that is about to run.
void cl_pass_interrupt(cl_state *state, lua_State *L);
/// Whether Lua code is about to be interrupted on the thread that handles signals.
int cl_has_interrupt(void);
/// Stops signals from interrupting this state, which was closed.
void cl_drop_signals(cl_state *state);

/// Pushes the position of the script's innermost line, in the form that it has at the beginning of error messages; an
/// empty text if there is none.
void cl_push_position(lua_State *L);

// parts.c
/// Pushes the `require` of the Lua-written parts, which finds private parts too.
void cl_push_require(lua_State *L);
/// Pushes the table of the private parts that are loaded, by name.
void cl_push_loaded_parts(lua_State *L);

// trampolines.c
/// Pushes the function of an entry.
void cl_push_function(lua_State *L, const cl_entry *entry);

// locals.c
/// For the Lua-written part. () -> rl.locals
int cl_new_locals(lua_State *L);
/// Gives the running task's values to the object at an index, for its callback. Call it only if there are values.
void cl_bequeath_locals(lua_State *L, int object);

// missing.c
/// For the Lua-written part. (methods, name): from now on a call of a method that does not exist raises an error that
/// suggests the intended method. `name` is that of the kind of objects, or "runloop.net" and the like for a module.
/// Does nothing if the table has a metatable.
int cl_on_missing(lua_State *L);
/// Like cl_on_missing, for the table on top of the stack, which has no metatable.
void cl_watch_missing(lua_State *L, const char *kind);
/// Pushes a hint for the error message about the call of a nil value, if that value was read from a module. Returns 0
/// and pushes nothing if there is none. Call it in protected mode.
int cl_push_hint(lua_State *L, const char *message);

// guard.c
/// Whether calls are being checked because an interruption was raised inside a function that catches errors.
extern _Thread_local int cl_is_guarding;
/// Call it before raising an interruption. If a loop of the script catches the interruption and calls pcall again,
/// `raise` raises it once more, outside of the pcall.
void cl_guard(lua_State *L, lua_CFunction raise);
/// The hook of the coroutines that run while `cl_is_guarding`.
void cl_on_guarded_call(lua_State *L, lua_Debug *debug);

// ending.c
/// Ends the process with an exit status. Must not be called in a signal handler.
_Noreturn void cl_end(int status);
/// Calls the `last_words` function, then lets the signal take its default action.
void cl_end_by(int number);
/// Sends SIGTERM to this thread after this many seconds.
void cl_wake_in(int seconds);
void cl_wake_in_milliseconds(int milliseconds);

// entries.c
/// Whether the running entry has been asked to end.
int cl_entry_is_unwanted(void);
/// Returns how hard the running entry is interrupted; see `cl_end_entries`.
int cl_pressure_on_entry(void);
uint64_t cl_exchange_entry(uint64_t entry);
void cl_want_end_of_entry(uint64_t entry);
/// Asks the running entry to end if its number is in this range; see `cl_end_entries`. Returns whether the number is in
/// the range.
int cl_press_entries(uint64_t first, uint64_t last, int how_hard);
/// Replaces the message handlers that would see the error of an interruption.
void cl_disarm_handlers(lua_State *L);
int cl_has_wishes(void);
/// Prints a text to standard error so that it cannot command a terminal: see `String.shown` in Linux.
void cl_print_shown(const char *text, size_t limit);
/// Notes the running call in the signal handler of a thread that is being cancelled. `is_new`: Lua has noticed all
/// earlier cancellations.
void cl_note_call(lua_State *L, int is_new);
/// In the signal handler: answers `cl_where_cancelled`, if that has sent the signal. `is_pending`: Lua has not noticed
/// the cancellation.
int cl_answer_where(cl_state *state, const siginfo_t *info, int is_pending);
/// Lets SIGURG reach this thread.
void cl_expect_urgent(void);
/// Sets a function that the handler of SIGURG calls first. The function returns whether the signal was meant for it.
void cl_heed_first(int (*heed)(const siginfo_t *info));
/// Safe in a signal handler.
void cl_note_wish(unsigned wish);
/// Ends the process if its standard output has failed because the reader has gone.
void cl_end_if_nobody_reads(void);
/// Calls the function that fulfils requests (CL_WISH_…); returns the pending ones.
unsigned cl_fulfil_wishes(cl_state *state);
