// CLuaSupport: what has to be C for Lua to be safe inside Swift.
//
// Lua raises and yields by longjmp, which must not pass over a Swift frame: it would leak what the frame owns and
// corrupt the runtime's records. So every function that Lua can call is a trampoline here. It calls Swift; Swift uses only
// Lua calls that cannot raise, and returns a verdict; the trampoline raises, yields or builds results when the Swift frame is gone.
// Swift in its turn calls Lua through functions here that run under lua_pcall.
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>

#include "streams.h"
#include "watch.h"
#include "where.h"

/// A Swift function that Lua can call. Returns the number of results on top of the stack, or a verdict.
typedef int (*cl_function)(lua_State *L);

/// What the trampoline is to do after Swift has returned. The text is in the host's scratch buffer.
enum cl_verdict {
  CL_RAISE = -1,        ///< raise the scratch text, with the position of the call
  CL_RAISE_VALUE = -2,  ///< raise the value on top of the stack
  CL_YIELD = -3,        ///< suspend the coroutine; see cl_resume_values
  CL_RESULTS = -4,      ///< return the values that the scratch buffer describes; see cl_tag
  CL_STRING = -5,       ///< return the scratch text as a string
  CL_BYTES = -8,        ///< return a string of the host's bytes_start and bytes_length
  CL_NO_MEMORY = -6,    ///< raise Lua's "not enough memory"
  CL_RAISE_INTERRUPTION = -7,  ///< raise "interrupted!", with the position of the call
  CL_CALL = -100,       ///< minus n: call the function below the n topmost values with these, return its results
};

/// How values are written in a buffer: a program for a stack machine.
enum cl_tag {
  CL_NIL = 'n', CL_FALSE = 'f', CL_TRUE = 't',
  CL_INTEGER = 'i',  ///< int64_t
  CL_NUMBER = 'd',   ///< double
  CL_TEXT = 's',     ///< uint64_t length, bytes
  CL_TABLE = '{',    ///< uint32_t array size, uint32_t hash size
  CL_SET = '=',      ///< pops a value and a key into the table below them
  CL_APPEND = ',',   ///< pops a value into the next free place of the array below it
  CL_ANCHORED = 'a', ///< uint32_t: the object in this slot of the anchors
  // In parcels only, which own what they name. Tables and functions are numbered in the order in which they appear.
  CL_BOX = 'b',        ///< uint32_t kind, uint64_t pointer: the userdata for a host object, made if there is none yet
  CL_REFERENCE = 'r',  ///< uint32_t number
  CL_FUNCTION = 'F',   ///< uint64_t length, the dumped function
  CL_UPVALUE = 'u',    ///< uint8_t index: pops a value into an upvalue of the function below it
  CL_JOIN = 'j',       ///< uint8_t index, uint32_t function, uint8_t its index: the two share an upvalue
  CL_NAMED = 'l',      ///< uint64_t length, module and field names separated by NUL
};

/// Values on their way between states.
typedef struct cl_parcel {
  char *bytes;
  size_t length, capacity;
  struct cl_shared { int kind; void *object; } *shared;
  uint32_t shared_count, shared_capacity;
  void (*drop)(void *shared);
  uint32_t numbered;    ///< how many tables and functions there are
  int has_references;
  int count;            ///< how many values
} cl_parcel;

/// A kind of userdata.
typedef struct cl_kind {
  const char *name;     ///< as `type` in messages and __name
  int index;            ///< its place among the kinds of a state
  size_t size;          ///< bytes, cl_box included
  int user_values;
  const char *const *value_names;  ///< of the user values, in order
  cl_function collect;  ///< __gc, or NULL; it must not touch Lua
  /// Whether it was made for nothing, which is worth a warning; or NULL. Writes its name, unless that is a user value, and a 0.
  int (*is_unused)(void *box, char *name, size_t most);
} cl_kind;

/// The head of every userdata of ours.
typedef struct cl_box {
  const cl_kind *kind;
  void *object;        ///< a retained Swift object, or NULL
  uint32_t slot;       ///< where it is anchored, or 0
  uint32_t site;       ///< where it was made
  uint32_t spread;     ///< how many further user values it has
  uint32_t flags;      ///< the kind's own
} cl_box;

/// Sizes of small blocks: multiples of 16 bytes.
#define CL_POOL_CLASSES 16
#define CL_MAX_KINDS 64

/// All about one Lua state. A pointer to it is in the extra space of each of its coroutines.
typedef struct cl_state cl_state;
struct cl_state {
  void *swift;         ///< the Swift host, unretained
  /// What of a userdata's object all threads share, with one more reference; NULL if the kind does not cross.
  void *(*share)(cl_state *state, int kind, void *object);
  /// An object for this state's userdata, from what is shared.
  void *(*arrive)(cl_state *state, int kind, void *shared);
  /// Gives up the reference of `share`.
  void (*drop)(void *shared);
  lua_State *main;
  lua_State *volatile running;  ///< the task's coroutine that runs now, for a signal handler to interrupt
  struct cl_resumption *volatile resumption;  ///< the innermost coroutine of the script's own that runs in it, or NULL
  void (*exit)(cl_state *state, int status, int close);  ///< os.exit; must not return
  lua_CFunction resume_function, close_function, status_function;  ///< Lua's own, of its coroutine library
  lua_CFunction catchers[3];  ///< functions that go on after an error in what they call
  lua_CFunction execute_function;  ///< os.execute as Lua has it
  int is_unreadable;   ///< the latest cl_load_file could not read the file
  int was_interrupted; ///< the latest cl_call_traced failed for being interrupted
  char *scratch;
  size_t length, capacity;
  const char *bytes_start;  ///< for CL_BYTES and cl_bytes_mark
  size_t bytes_length;
  int anchors;         ///< registry reference of the table of anchored objects
  uint32_t *free_slots;  ///< places there that are free again, each `false`, so that filling one allocates nothing
  uint32_t free_count;
  uint32_t free_in_vain;  ///< how many there were when the places could not be made fewer
  uint32_t slots_used, slot_count;  ///< how many places were ever filled, and how many there are
  int names;           ///< registry reference of the table of what crosses by name, or 0
  lua_Integer named_modules;
  const void *modules_guard;  ///< the metatable that notes new modules, or NULL
  int names_are_old;   ///< there are new ones
  int boxes;           ///< registry reference of the weak table of userdata by host object
  int metatables[CL_MAX_KINDS];
  const cl_kind *kinds[CL_MAX_KINDS];
  struct cl_sites *sites;
  cl_box *receiver;    ///< the object that a method is called on, or that a constructor has just made: for the function called
  cl_function wrong_self;  ///< says that argument 1 is not what a method is called on
  struct cl_parcel *packed;  ///< the values that were passed to a function that packs
  void *home;          ///< the object of the loop that is this state's own
  // Memory.
  size_t bytes, blocks;
  lua_CFunction collect_function;  ///< collectgarbage as Lua has it
  int is_generational;             ///< the mode that the script knows of
  int is_collecting;               ///< between cl_begin_collection and cl_end_collection
  uint64_t allocations;
  uint64_t fail_at;    ///< the number of the allocation that fails; 0: none
  int fail_on;         ///< and all after it fail, too
  struct cl_slab *slabs[CL_POOL_CLASSES];  ///< with room for small blocks, by their size
  struct cl_chunk *chunks, *full_chunks;   ///< with room for slabs, and without
  void *thread;                            ///< whose slabs these are: see cl_this_thread
  void *returned;                          ///< atomic: blocks that other threads have given back, each beginning with the address of the next
  uint32_t cancelled;  ///< anchors the error value by which Lua code is cancelled, or 0
  int has_hooks;       ///< a script has set a hook: see cl_hook_task
  int hook_mask, hook_count;  ///< of the hook that holds for all tasks; 0: there is none
  lua_CFunction sethook_function, gethook_function;  ///< Lua's own
  int closing;         ///< finalizers run for the last time: every call of the API raises
  int warns;           ///< Lua's warnings are on
  int tells_calls;     ///< whether a call of a missing method can be told from a question for it: 1, -1, or 0: not tried yet
};

// Hosts.
cl_state *cl_open(void *swift);
/// States made from now on hash strings with a number that depends on this one alone, in a process whose addresses are not random.
void cl_fix_seed(unsigned seed);
void cl_close(cl_state *state);
void cl_free(cl_state *state);
// The lowest bit marks the coroutines of the host's own; the next one those of them that run a chunk.
static inline cl_state *cl_state_of(lua_State *L) {
  return (cl_state *)(*(uintptr_t *)lua_getextraspace(L) & ~(uintptr_t)3);
}
/// Whether a coroutine is one in which the host runs tasks and callbacks.
static inline int cl_is_fiber(lua_State *L) { return (int)(*(uintptr_t *)lua_getextraspace(L) & 1); }

// The scratch buffer. cl_write returns 0 when memory is out.
void cl_reset(cl_state *state);
int cl_write(cl_state *state, const void *bytes, size_t length);

// Registering. All return a Lua status; on failure the error is on the stack. Entries live as long as the state.
/// A function for Lua. Its trampoline has it as an upvalue: that is where errors find its name.
typedef struct cl_entry {
  const char *name;        ///< in its table; what begins with "__" is an event of the kind's metatable
  const char *library;     ///< what stands before it in messages, with the point: "rl."; NULL
  const cl_kind *self_kind;  ///< a method: it is called only if argument 1 is of this kind
  cl_function function;
  const cl_kind *makes;    ///< a constructor: the new userdata is argument 1, before all others
  const cl_kind *makes_afar;  ///< of this kind instead if self is another thread's; then what would be kept is packed, if it begins
                           ///< with a function
  int spread;              ///< a constructor: the arguments from this one on are kept in further user values of the new object; if
                           ///< the argument before is a table, its array part from 2 on instead. 0: none
  int is_native;           ///< no Swift, but a function of Lua's own kind, which may raise
  int packs;               ///< the arguments from this one on are packed; see cl_take_parcel. 0: none
  const char *said_as;     ///< what errors begin with instead, where the function is a part of another; NULL
} cl_entry;
/// The next free number of a kind; beyond CL_MAX_KINDS there is none, and the process ends. From any thread.
int cl_next_kind(void);
/// The record of a kind, the same for all states: written once, before any state knows the kind.
cl_kind *cl_kind_record(int index);
/// Makes the metatable of a kind, with these methods.
int cl_define_kind(lua_State *L, const cl_kind *kind, const cl_entry *methods, int count);
/// Leaves a table with these functions on the stack.
int cl_new_library(lua_State *L, const cl_entry *entries, int count);
/// The entry of the function that runs, which is one of these.
static inline const cl_entry *cl_running(lua_State *L) { return (const cl_entry *)lua_touserdata(L, lua_upvalueindex(1)); }

/// Pushes the userdata for a host object, which the caller holds until this returns: finalizers may run meanwhile, and what
/// they call may let go of anything. Made if there is none yet; on failure the error instead. Returns a Lua status.
int cl_push_object(lua_State *L, const cl_kind *kind, void *object);

/// In a function that packs, before anything else: its parcel, which is the caller's to free; NULL if there was nothing to pack.
cl_parcel *cl_take_parcel(lua_State *L);
/// Packs the values from `first` to the top and pops them; NULL: the error message is on the stack instead. `entry` is the function
/// that they are passed to, or NULL: somebody has returned them.
cl_parcel *cl_pack(lua_State *L, int first, const cl_entry *entry);
/// Pushes the values; on failure the error instead. Returns a Lua status.
int cl_unpack(lua_State *L, const cl_parcel *parcel);
void cl_free_parcel(cl_parcel *parcel);

// Protected calls from Swift. They leave their results, or the error, on the stack.
int cl_call_protected(lua_State *L, lua_CFunction function, int arguments, int results);
/// Whether two values are equal, as `==` has it: metamethods are called. -1: one has raised, and the error is on top of the stack.
int cl_equal(lua_State *L, int index, int other);
/// Opens Lua's libraries. Unless the collector is stopped, it is generational afterwards.
int cl_open_libraries(lua_State *L, int without_environment);
/// Until cl_start_collector nothing is collected but when memory is out: for the opening of a state, which makes no garbage.
void cl_stop_collector(lua_State *L);
int cl_start_collector(lua_State *L);  ///< generational
int cl_load_file(lua_State *L, const char *path);   ///< NULL: standard input
/// Pushes a function that calls the function which is its first argument, with the others, as lua calls a chunk. An error
/// does not leave it: see cl_is_failure. What it calls may wait.
void cl_push_chunk_runner(lua_State *L);
/// Whether the results on top of the stack are those of a chunk that failed: four, of which the second is the error value, the
/// third the length of the message in the fourth, if that has a traceback behind it.
int cl_is_failure(lua_State *L, int results);
/// Pushes the elements of the global table `arg`, from 1 on.
int cl_push_arguments(lua_State *L);
int cl_load_text(lua_State *L, const char *text, size_t length, const char *chunk_name);
int cl_push_text(lua_State *L, const char *text, size_t length);
int cl_decode(lua_State *L);                        ///< what the scratch buffer describes, one value
int cl_set_global(lua_State *L, const char *name);  ///< pops a value
int cl_get_global(lua_State *L, const char *name);
/// Has `require` find the host's own modules: `runloop`, which `open` makes, and those beneath it of which `knows` does not
/// return 0, called with package.preload and the name: `open_other` makes them when they are first required.
int cl_open_modules(lua_State *L, const cl_entry *open, cl_function knows, const cl_entry *open_other);
int cl_replace(lua_State *L, const char *library);  ///< pops a library: its functions take the places of a global table's
/// Pushes the table of functions that the Lua-written part of the API is built on.
int cl_push_internals(lua_State *L);
void cl_push_print(lua_State *L);  ///< As the host has it.
/// Writes message and traceback of an error value, on top of `from`, into the scratch buffer, from the stack of `from`. Returns the
/// message's length.
size_t cl_explain(lua_State *L, lua_State *from);
/// Writes the traceback of `from`.
void cl_trace(lua_State *L, lua_State *from);
/// Whether the value at an index is the error that interrupting code has raised.
int cl_is_interruption(lua_State *L, int index);
/// Writes luaL_tolstring of the value at an index.
void cl_to_text(lua_State *L, int index);
int cl_new_thread(lua_State *L);
/// Calls a function with arguments, with traceback in the error message; `was_interrupted` tells afterwards whether it was.
int cl_call_traced(lua_State *L, int arguments, int results);

/// Keeps the value at an index alive, in a slot other than 0; 0 when memory is out. Raises nothing.
uint32_t cl_anchor(lua_State *L, int index);
/// Makes strings and anchors them: texts that end with a 0 each, one behind the other. Returns 0 when memory is out.
int cl_anchor_texts(lua_State *L, const char *texts, uint32_t *slots, int count);
/// Lets go of it. Raises nothing; does nothing for 0, and once the state is closed.
void cl_let_go(cl_state *state, uint32_t slot);
/// Gives back what a burst has needed for anchors. It may take a millisecond.
void cl_shrink_anchors(cl_state *state);

/// After CL_YIELD: the coroutine continues with these, pushed before lua_resume: either values to return, or the light
/// userdata `cl_raise_mark()` and an error value.
void *cl_raise_mark(void);
/// The same for a single value: a string of the host's bytes_start and bytes_length.
void *cl_bytes_mark(void);
/// Pushes a new object of a kind, which holds nothing yet. Returns a Lua status.
int cl_push_new(lua_State *L, const cl_kind *kind);
/// Writes the text of the number at an index, as tostring makes it; its length. Raises nothing.
size_t cl_number_text(lua_State *L, int index, char text[64]);

/// Finds the box of a kind, or NULL.
static inline cl_box *cl_box_at(lua_State *L, int index, const cl_kind *kind) {
  cl_box *box = (cl_box *)lua_touserdata(L, index);
  return box && lua_rawlen(L, index) >= sizeof(cl_box) && box->kind == kind ? box : NULL;
}
/// Finds the box of any kind of ours, or NULL.
cl_box *cl_any_box_at(lua_State *L, int index);

// Where objects are made.
uint32_t cl_site_of_caller(lua_State *L);
/// The source's short name and the line of a site.
const char *cl_site(cl_state *state, uint32_t site, int *line);

/// While `has_hooks` is set, before a coroutine of the host's is resumed: gives it the hook that it is to have. One that begins has
/// none but that of all, one that goes on keeps its own.
void cl_hook_task(lua_State *L, int goes_on);

/// What `lua -v` says.
static inline const char *cl_copyright(void) { return LUA_COPYRIGHT; }
static inline const char *cl_release(void) { return LUA_RELEASE; }
/// Pushes the Lua-written part of the library as a function, or an error value. It is compiled once for all states.
int cl_load_prelude(lua_State *L);
/// The same for its last argument, which makes `rl.notifications`.
int cl_load_notifications(lua_State *L);

int cl_has_module(const char *name);  ///< Whether there is one of the product's own of this name.
/// Loads a module of the product's own by its name, as a function, or leaves an error. Names and creation sites pass it over.
int cl_load_module(lua_State *L, const char *name);
/// Pushes the text of a module of the product's own: the reference of the API is one. Returns a Lua status.
int cl_push_module_text(lua_State *L, const char *name);

/// Adds to this thread's count of objects, for tests; returns the count.
int cl_live_objects(int change);

int cl_warns(cl_state *state);  ///< Whether warnings are on.

/// Whether a signal is to interrupt what the calling thread does, which then should not go on waiting.
int cl_ends_waits(void);
/// realpath(3): NULL, or a text for cl_free_text.
char *cl_real_path(const char *path);
void cl_free_text(char *text);

// Signals.
/// Has SIGINT, SIGTERM, SIGQUIT and SIGPIPE noted, and `notify` called in the signal handler. Lua code that runs in `state`
/// is interrupted by the first two, `explain` is called in it for the third; the fourth ends the process only if nobody
/// reads its standard output any more. To be called on the host's thread, once.
void cl_handle_signals(cl_state *state, void (*notify)(void), int (*is_waiting)(void), void (*explain)(cl_state *state));
/// The process ends: Lua code that runs is interrupted, and once more if it catches that.
void cl_interrupt(cl_state *state);
void cl_forget_interrupts(void);  ///< An interruption has done its work: no more of it.
/// Lua code that runs, or that goes on next, is interrupted once, as if by SIGINT.
void cl_interrupt_once(cl_state *state);
/// A signal that has just come, while no Lua code ran, is for the code that runs now.
void cl_hand_interrupt_over(cl_state *state);
/// Called on this thread before and after what `os.execute` runs.
void cl_set_around_program(void (*function)(int begins));
/// How this process ends. `last_words` is called in the signal handler before a signal to which nobody listens ends it, and `end`, with the exit
/// status, where it ends otherwise.
void cl_set_ends(void (*last_words)(void), void (*end)(int status));
/// The state is about to be closed because of a signal: if that takes longer than three seconds, in C code that blocks for example, the process
/// ends by the signal all the same.
void cl_limit_closing(int number);
/// The calling thread's Lua code, that of `state`, can be cancelled from now on, by the number that is returned; until
/// cl_end_cancelling.
uintptr_t cl_accept_cancelling(cl_state *state);
void cl_end_cancelling(void);
/// Any thread may call it while that one accepts it: Lua code that runs there raises what `state->cancelled` anchors, and once more
/// if it catches that in a loop.
void cl_cancel_running(uintptr_t thread);
/// Where a thread is that was cancelled and is in a function of C.
typedef struct {
  char function[64];  // empty if it has no name
  char source[LUA_IDSIZE];
  int line;  // of the Lua code that has called it; 0: none has
  int64_t nanoseconds;  // since it was cancelled
} cl_whereabouts;
/// Any thread may ask, while that one accepts to be cancelled. Takes up to 50 ms. Returns 0 if it runs Lua code, waits in its loop, or
/// does not answer.
int cl_where_cancelled(uintptr_t thread, cl_whereabouts *whereabouts);
/// From now on, or no longer, that has system calls there fail with EINTR, and raises nothing twice.
void cl_let_calls_fail(int fail);
/// The text of a script is being read, or not any more: signals that end the process do so at once.
void cl_read_script(int reads);
/// There is a prompt: who takes the reading of a file back does not end it.
void cl_note_prompt(void);
/// Whether SIGINT and SIGTERM are only noted, and interrupt nothing; a second one ends the process.
void cl_defer_signals(int defers);
/// Takes the note of a signal; whether there was one.
int cl_take_signal(int number);

// Code that another process has sent, as `rlhost attach` does.
/// What others may want of the thread that runs Lua.
enum {
  CL_WISH_ATTACH = 1,     ///< to be attachable
  CL_WISH_WHERE = 2,      ///< to say where it is
  CL_WISH_INTERRUPT = 4,  ///< to end the callback that runs
  CL_WISH_DUMP = 8,       ///< to write down its last moments
  CL_WISH_RECORD = 16,    ///< to record what happens
};
/// The value with which another process has to send SIGURG, by sigqueue, in order to be heard: it means CL_WISH_ATTACH.
enum { CL_ATTACH_WORD = 0x726c };
/// Has SIGURG handled, from now on, or not any more. Once, behind cl_handle_signals.
void cl_watch_wishes(cl_state *state, int watches);
/// Has SIGUSR2 handled, which means CL_WISH_DUMP, if it would end the process. Behind cl_handle_signals.
void cl_watch_dumps(cl_state *state);
/// `function` is called on the host's thread with wishes, where Lua code runs; where it does not, take them when the loop asks.
void cl_grant_wishes(cl_state *state, void (*function)(cl_state *state, unsigned wishes));
/// Any thread may call it.
void cl_wish(cl_state *state, unsigned wish);
unsigned cl_take_wishes(void);
/// Has an entry that runs interrupted by `cl_end_entries`. Once, on the host's thread, behind cl_handle_signals: without that,
/// nothing is interrupted. `is_in` tells, where Lua code is about to be interrupted, whether that is the entry's.
void cl_watch_entries(cl_state *state, int (*is_in)(cl_state *state));
/// From now on the code of this entry runs on the host's thread; 0: no entry's. Returns which it was before.
uint64_t cl_entry_runs(uint64_t entry);
/// Any thread may call it: if an entry of these runs now it is interrupted, as by SIGINT. That one alone, however late this is.
/// How hard: 0, as Control-C does it; 1, past the message handlers of xpcall; 2, each further instruction of it raises, too.
/// Returns whether one ran.
int cl_end_entries(cl_state *state, uint64_t first, uint64_t last, int how_hard);
/// The same, on the host's thread: code of the entry that runs goes on with the error.
void cl_interrupt_entry(cl_state *state, uint64_t entry);

// Constants that Swift does not import.
static const int cl_registry = LUA_REGISTRYINDEX;
static inline void lua_gc_collect(lua_State *L) { lua_gc(L, LUA_GCCOLLECT); }
/// Puts the top values into a table, which takes their place; on failure the error does. Returns a Lua status.
int cl_collect_values(lua_State *L, int count);
// A collection in small steps, for a state that has nothing else to do.
/// Returns whether it may begin: not while a script has stopped the collector, or a finalizer runs, nor where to begin would take long.
int cl_begin_collection(cl_state *state);
/// Collects for about so many nanoseconds; adds to `spent` what that took of the processor's time. Returns 1 at the end of a cycle, of
/// which each brings up what the finalizers of the last one have let go, 0 within one, -1 if there is no such collection any more.
int cl_collect(cl_state *state, int64_t nanoseconds, int64_t *spent);
/// Ends it; the script's own mode comes back.
void cl_end_collection(cl_state *state);
static inline void cl_pop(lua_State *L, int n) { lua_settop(L, -n - 1); }
