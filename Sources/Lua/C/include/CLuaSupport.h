// CLuaSupport: the parts that have to be in C for Lua to be safe inside Swift.
//
// Lua raises and yields by longjmp. A longjmp must not pass over a Swift frame: it would leak the objects that the
// frame owns, and corrupt the state of the Swift runtime. So every function that Lua can call is a trampoline in C. It
// calls Swift; Swift uses only Lua calls that cannot raise, and returns a verdict; the trampoline raises, yields or
// builds results after the Swift frame has returned. When Swift calls Lua, it does so through functions of this header
// that run under lua_pcall.
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>

#include "streams.h"
#include "limit.h"
#include "sandboxed.h"
#include "watch.h"
#include "where.h"

/// A Swift function that Lua can call. Returns the number of results on top of the stack, or a verdict.
typedef int (*cl_function)(lua_State *L);

/// Results by which a Swift function tells its trampoline how to end the call. If a result needs a text, the function
/// has put it into the host's scratch buffer.
enum cl_verdict {
  CL_RAISE = -1,               ///< raise the scratch text, with the position of the call
  CL_RAISE_VALUE = -2,         ///< raise the value on top of the stack
  CL_YIELD = -3,               ///< suspend the coroutine; see cl_raise_mark for how it goes on
  CL_RESULTS = -4,             ///< return the values that the scratch buffer describes; see cl_tag
  CL_STRING = -5,              ///< return the scratch text as a string
  CL_BYTES = -8,               ///< return the host's bytes_start and bytes_length as a string
  CL_PIECES = -9,              ///< return pieces of those bytes; see cl_form
  CL_NO_MEMORY = -6,           ///< raise Lua's "not enough memory"
  CL_RAISE_INTERRUPTION = -7,  ///< raise "interrupted!", with the position of the call
  /// CL_CALL - n: call the function below the n topmost values with these values, and return its results
  CL_CALL = -100,
};

/// The ways to split returned bytes into Lua values.
enum cl_form {
  CL_WORDS = 1,  ///< the words between blanks and tabs: at least one, which may be empty, and at most 64
  /// the values of a frame's head, without the last one (the body's length), and the body. Argument 1 is the format of
  /// the head
  CL_FRAME = 2,
  CL_WHICH = 3,  ///< all bytes, and bytes_number
};

/// The tags of values in a buffer. A buffer is a program for a stack machine that makes these values.
enum cl_tag {
  CL_NIL = 'n',
  CL_FALSE = 'f',
  CL_TRUE = 't',
  CL_INTEGER = 'i',   ///< int64_t
  CL_NUMBER = 'd',    ///< double
  CL_TEXT = 's',      ///< uint64_t length, bytes
  CL_TABLE = '{',     ///< uint32_t size of the array part, uint32_t size of the hash part
  CL_SET = '=',       ///< pops a value and a key into the table below them
  CL_APPEND = ',',    ///< pops a value and appends it to the array below it
  CL_ANCHORED = 'a',  ///< uint32_t: pushes the object in this anchor slot
  // The following tags occur in parcels only, which own the objects that they name. Tables and functions are numbered
  // in the order in which they appear.
  /// uint32_t kind, uint64_t pointer: pushes the userdata for a host object, and makes it if the state has none
  CL_BOX = 'b',
  CL_REFERENCE = 'r',  ///< uint32_t number: pushes the table or function with this number
  CL_FUNCTION = 'F',   ///< uint64_t length, the dumped function
  CL_UPVALUE = 'u',    ///< uint8_t index: pops a value into an upvalue of the function below it
  /// uint8_t index, uint32_t number, uint8_t index: makes the function on top of the stack and the function with this
  /// number share an upvalue
  CL_JOIN = 'j',
  CL_NAMED = 'l',  ///< uint64_t length; module and field names, separated by NUL
};

/// A host object that a parcel owns.
struct cl_shared {
  int kind;
  void *object;
};

/// Values that travel between states.
typedef struct cl_parcel {
  char *bytes;
  size_t length, capacity;
  struct cl_shared *shared;
  uint32_t shared_count, shared_capacity;
  void (*drop)(void *shared);
  uint32_t numbered;  ///< number of tables and functions
  int has_references;
  int count;  ///< number of values
} cl_parcel;

/// A kind of userdata.
typedef struct cl_kind {
  const char *name;                ///< name in messages, also the value of `type` and __name
  int index;                       ///< index among the kinds of a state
  size_t size;                     ///< bytes, cl_box included
  int user_values;                 ///< number of user values
  const char *const *value_names;  ///< names of the user values, in order
  cl_function collect;             ///< __gc, or NULL; must not call Lua
  /// Returns whether the object was never used, so that a warning is useful. Writes the object's name and a terminating
  /// 0, unless a user value has the name. NULL if the kind has no such check.
  int (*is_unused)(void *box, char *name, size_t most);
  int inherits;  ///< whether the object's callbacks have the values that rl.locals had when it was made
} cl_kind;

/// The head of every userdata of this host.
typedef struct cl_box {
  const cl_kind *kind;
  void *object;     ///< a retained Swift object, or NULL
  uint32_t slot;    ///< anchor slot, or 0
  uint32_t site;    ///< creation site
  uint32_t spread;  ///< number of further user values
  uint32_t flags;   ///< bits that the kind defines
} cl_box;

/// Number of size classes of small blocks; the sizes are multiples of 16 bytes.
#define CL_POOL_CLASSES 16
#define CL_MAX_KINDS 64

/// A call of a C function that has blocked its thread. Several calls from one line in close succession count as one.
typedef struct cl_held {
  const char *name;  ///< as scripts write it; NULL if there was none
  char source[LUA_IDSIZE];
  int line;              ///< the calling line of the script; 0 if there is none
  int64_t began, ended;  ///< nanoseconds, by the monotonic clock
} cl_held;

/// The number of such calls that a state remembers.
#define CL_HELD 4

/// Everything that belongs to one Lua state. The extra space of each of its coroutines holds a pointer to it.
typedef struct cl_state cl_state;
struct cl_state {
  void *swift;  ///< the Swift host, unretained
  /// Returns the part of a userdata's object that all threads share, with one more reference; NULL if the kind cannot
  /// be sent to another thread.
  void *(*share)(cl_state *state, int kind, void *object);
  /// Makes the object for this state's userdata from the shared part.
  void *(*arrive)(cl_state *state, int kind, void *shared);
  /// Releases the reference that `share` has taken.
  void (*drop)(void *shared);
  lua_State *main;
  uint32_t running_slot;        ///< the anchor slot of `running`, or 0
  int locals, inheritances;     ///< registry references of the tables of rl.locals, or 0: see locals.c
  lua_State *volatile running;  ///< the coroutine of the running task, which a signal handler interrupts
  /// the innermost coroutine that the script has made and that runs in the task, or NULL
  struct cl_resumption *volatile resumption;
  uint64_t turns;  ///< the number of resumptions by the host; written with cl_note_turn
  void (*exit)(cl_state *state, int status, int close);  ///< os.exit; must not return
  /// Lua's own functions from its coroutine library
  lua_CFunction resume_function, close_function, status_function;
  lua_CFunction catchers[3];       ///< functions that continue after an error in the function they call
  lua_CFunction execute_function;  ///< Lua's own os.execute
  int is_unreadable;               ///< the latest cl_load_file could not read the file
  int was_interrupted;             ///< the latest cl_call_traced failed because of an interruption
  char *scratch;
  size_t length, capacity;
  const char *bytes_start;  ///< for CL_BYTES and cl_bytes_mark
  size_t bytes_length;
  int bytes_form;  ///< for CL_PIECES and cl_pieces_mark: a cl_form
  int bytes_number;
  int anchors;           ///< registry reference of the table of anchored objects
  uint32_t *free_slots;  ///< anchor slots that are free again; each holds `false`, so filling one allocates nothing
  uint32_t free_count;
  uint32_t free_in_vain;            ///< number of free slots when an attempt to shrink the table last failed
  uint32_t slots_used, slot_count;  ///< number of slots that were ever filled, and number of slots that exist
  int names;                        ///< registry reference of the table of values that cross by name, or 0
  lua_Integer named_modules;
  const void *modules_guard;  ///< the metatable that reports new modules, or NULL
  int names_are_old;          ///< modules were loaded since the table of names was made
  int boxes;                  ///< registry reference of the weak table from host object to userdata
  int metatables[CL_MAX_KINDS];
  const cl_kind *kinds[CL_MAX_KINDS];
  struct cl_sites *sites;
  cl_box *receiver;          ///< the object of the running method call, or the one that a constructor has just made
  cl_function wrong_self;    ///< reports that argument 1 is not an object of the method's kind
  struct cl_parcel *packed;  ///< the values that were passed to a function that packs its arguments
  void *home;                ///< the object of this state's own loop
  const struct cl_entry *openers;  ///< see cl_open_modules
  lua_CFunction open_part;         ///< (name): returns a private part of a module, or false
  int suggests_modules;            ///< the searcher that suggests names of modules is in place
  // Memory.
  size_t bytes, blocks;
  size_t bytes_limit;  ///< the largest value that `bytes` may have
  size_t bytes_mark;   ///< at most the limit: an allocation that exceeds it calls `pass_mark`
  int (*pass_mark)(cl_state *state, size_t bytes);  ///< whether Lua's memory may have this number of bytes
  size_t bytes_collect;                             ///< with a limit: beyond this, garbage is collected
  struct cl_state *next_sharer;                     ///< see cl_share_memory
  int shares_memory;
  lua_CFunction collect_function;  ///< Lua's own collectgarbage
  int is_generational;             ///< the mode that the script has chosen
  int is_collecting;               ///< true between cl_begin_collection and cl_end_collection
  uint64_t allocations;
  uint64_t fail_at;                        ///< number of the allocation that fails; 0 means none
  int fail_on;                             ///< all later allocations fail, too
  struct cl_slab *slabs[CL_POOL_CLASSES];  ///< slabs with room for small blocks, by block size
  struct cl_chunk *chunks, *full_chunks;   ///< chunks with room for slabs, and chunks without
  void *thread;                            ///< the thread that owns the slabs: see cl_this_thread
  /// atomic: blocks that other threads have freed; each begins with the address of the next
  void *returned;
  uint32_t cancelled;                                ///< anchor slot of the error value that cancels Lua code, or 0
  int has_hooks;                                     ///< a script has set a hook: see cl_hook_task
  int raised_in_hook;                                ///< a hook of the host's has raised an error
  int hook_mask, hook_count;                         ///< the mask of the hook for all tasks; 0 means that there is none
  lua_CFunction sethook_function, gethook_function;  ///< Lua's own
  cl_held held[CL_HELD];                             ///< a ring of the latest calls that have blocked the thread
  int last_held;                                     ///< index of the newest call in `held`
  void *end;    ///< in `cl_close` of a process that ends: the place at which to continue after the last finalizer
  int closing;  ///< the last finalizers run, and every call of the API raises an error
  lua_State *volatile finalizing;  ///< the coroutine in which finalizers run, or NULL
  int warns;                       ///< Lua's warnings are on
  /// whether a call of a missing method can be distinguished from a read of the field: 1 if so, -1 if not, 0 if not
  /// tried yet
  int tells_calls;
};

/// Notes from now on which calls of io.read, file:read, file:close and os.execute block the thread. Returns a status.
int cl_note_blocking(lua_State *L);

/// If one or two of these calls have blocked the thread for most of an interval, writes a text such as "os.execute at
/// app.lua:2"; "and" joins two calls. The interval is in nanoseconds of the monotonic clock. Otherwise returns 0.
int cl_what_blocked(const cl_state *state, int64_t began, int64_t took, char *text, size_t size);

// Hosts.
cl_state *cl_open(void *swift);
/// Makes all later states hash strings with a number that depends only on `seed`. Works only if the process has no
/// random addresses.
void cl_fix_seed(unsigned seed);
/// Closes the state: calls all finalizers and frees the objects. If the process ends as well, most objects are not
/// freed.
void cl_close(cl_state *state, int with_process);
void cl_free(cl_state *state);
/// Notes that the host resumes a coroutine. Other threads may read the number at any time.
static inline void cl_note_turn(cl_state *state) {
  __atomic_store_n(&state->turns, state->turns + 1, __ATOMIC_RELAXED);
}
static inline uint64_t cl_turns(const cl_state *state) { return __atomic_load_n(&state->turns, __ATOMIC_RELAXED); }
// The lowest bit marks the host's own coroutines; the next bit marks those of them that run a chunk.
static inline cl_state *cl_state_of(lua_State *L) {
  return (cl_state *)(*(uintptr_t *)lua_getextraspace(L) & ~(uintptr_t)3);
}
/// Whether the host runs tasks and callbacks in this coroutine.
static inline int cl_is_fiber(lua_State *L) { return (int)(*(uintptr_t *)lua_getextraspace(L) & 1); }

// The scratch buffer. cl_write returns 0 if there is no memory.
void cl_reset(cl_state *state);
int cl_write(cl_state *state, const void *bytes, size_t length);

// Registering. All functions return a Lua status; on failure they leave the error on the stack. Entries live as long as
// the state.
/// A function for Lua. The function's trampoline keeps the entry as an upvalue, from which errors take the function's
/// name.
typedef struct cl_entry {
  const char *name;          ///< name in its table; a name that begins with "__" is an event of the kind's metatable
  const char *library;       ///< prefix of the name in messages, with the point: "rl."; or NULL
  const cl_kind *self_kind;  ///< a method: it is called only if argument 1 is of this kind
  cl_function function;
  const cl_kind *makes;  ///< a constructor: the new userdata is argument 1, before all others
  /// for a constructor: the kind to make instead if `self` belongs to another thread. The kept arguments are then
  /// packed, if the first of them is a function
  const cl_kind *makes_afar;
  /// for a constructor: the arguments from this number on are kept in further user values of the new object. If the
  /// argument before them is a table, its elements from 2 on are kept instead. 0 means none
  int spread;
  int is_native;        ///< calls no Swift: a plain lua_CFunction, which may raise
  int packs;            ///< the arguments from this number on are packed; see cl_take_parcel. 0 means none
  const char *said_as;  ///< name in errors of a function that is a part of another one; or NULL
} cl_entry;
/// Returns the next free number of a kind. Ends the process if CL_MAX_KINDS are in use. May be called on any thread.
int cl_next_kind(void);
/// Returns the record of a kind, which all states share. The record is written once, before any state knows the kind.
cl_kind *cl_kind_record(int index);
/// Makes the metatable of a kind, with these methods.
int cl_define_kind(lua_State *L, const cl_kind *kind, const cl_entry *methods, int count);
/// Pushes a table with these functions.
int cl_new_library(lua_State *L, const cl_entry *entries, int count);
/// Returns the entry of the running function, which must be one of these.
static inline const cl_entry *cl_running(lua_State *L) {
  return (const cl_entry *)lua_touserdata(L, lua_upvalueindex(1));
}

/// Pushes the userdata for a host object, and makes it if the state has none. The caller must retain the object until
/// this returns: finalizers may run meanwhile and release anything. Returns a Lua status; on failure the error is on
/// the stack.
int cl_push_object(lua_State *L, const cl_kind *kind, void *object);

/// Returns the parcel with the arguments of the running function, if its entry packs them; NULL if there was nothing to
/// pack. Call it before anything else, and free the parcel.
cl_parcel *cl_take_parcel(lua_State *L);
/// Packs the values from `first` to the top and pops them. Returns NULL on failure, with the error message on the
/// stack. `entry` is the function to which the values are passed, or NULL if they are results.
cl_parcel *cl_pack(lua_State *L, int first, const cl_entry *entry);
/// Pushes the values of a parcel. Returns a Lua status; on failure the error is on the stack.
int cl_unpack(lua_State *L, const cl_parcel *parcel);
void cl_free_parcel(cl_parcel *parcel);

// Protected calls from Swift. They leave their results, or the error, on the stack.
int cl_call_protected(lua_State *L, lua_CFunction function, int arguments, int results);
/// Whether two values are equal by `==`, which calls metamethods. Returns -1 if a metamethod has raised, with the error
/// on the stack.
int cl_equal(lua_State *L, int index, int other);
/// Opens Lua's libraries. Leaves the collector in generational mode, unless it is stopped.
int cl_open_libraries(lua_State *L, int without_environment);
/// Makes the collector run only when memory runs out, until cl_start_collector. Opening a state makes no garbage.
void cl_stop_collector(lua_State *L);
int cl_start_collector(lua_State *L);              ///< starts it in generational mode
int cl_load_file(lua_State *L, const char *path);  ///< NULL means standard input
/// Pushes a function that calls its first argument with the other arguments, as lua calls a chunk. An error in the
/// chunk becomes results: see cl_is_failure. The chunk may wait.
void cl_push_chunk_runner(lua_State *L);
/// Whether the results on top of the stack are those of a chunk that failed. A failure has four results: a mark, the
/// error value, the length of the message in the text if a traceback follows it, and the text.
int cl_is_failure(lua_State *L, int results);
/// Pushes the elements of the global table `arg`, from 1 on.
int cl_push_arguments(lua_State *L);
int cl_load_text(lua_State *L, const char *text, size_t length, const char *chunk_name);
int cl_push_text(lua_State *L, const char *text, size_t length);
int cl_push_scratch(lua_State *L);                  ///< pushes the text in the scratch buffer
int cl_decode(lua_State *L);                        ///< pushes the one value that the scratch buffer describes
int cl_set_global(lua_State *L, const char *name);  ///< pops a value
int cl_get_global(lua_State *L, const char *name);
/// The functions that make the host's own modules, in a library: `runloop`; (name) another public module; (name) a
/// private part, or false if no part has the name.
enum { CL_OPEN_RUNLOOP, CL_OPEN_OTHER, CL_OPEN_PART };
/// Makes `require` find the host's public modules when they are first required. The `require` of the parts that are
/// written in Lua also finds private parts. `knows` is called with package.preload and a name, and returns 0 unless
/// scripts can require a module of that name. The openers live as long as the state.
int cl_open_modules(lua_State *L, const cl_entry *openers, cl_function knows);
int cl_replace(lua_State *L, const char *library);  ///< pops a library and puts its functions into a global table
/// Pushes the table of internal functions that the Lua-written part of the API uses.
int cl_push_internals(lua_State *L);
void cl_push_print(lua_State *L);  ///< pushes the host's own print
/// Writes message and traceback of the error value on top of `from` into the scratch buffer; the traceback is that of
/// `from`. Returns the length of the message.
size_t cl_explain(lua_State *L, lua_State *from);
/// Writes the traceback of `from` into the scratch buffer.
void cl_trace(lua_State *L, lua_State *from);
/// A copy of a coroutine's stack: places and names, without values.
typedef struct cl_stack cl_stack;
/// Copies the stack of a coroutine that runs, waits or has just failed. Calls no Lua code, raises nothing; returns NULL
/// if there is no memory. The copy has a reference count: cl_keep_stack adds 1, cl_drop_stack subtracts 1, and the last
/// cl_drop_stack frees the copy.
cl_stack *cl_take_stack(lua_State *L);
void cl_keep_stack(cl_stack *stack);
void cl_drop_stack(cl_stack *stack);
/// Writes the lines of the traceback into the scratch buffer, each with a line end.
void cl_show_stack(lua_State *L, const cl_stack *stack);
/// Returns the script's innermost line, or NULL.
const char *cl_place_of_stack(const cl_stack *stack, int *line);
/// Whether the stack has a line of the script.
int cl_has_place(const cl_stack *stack);
/// Whether the outermost function belongs to the host.
int cl_is_served(const cl_stack *stack);
/// Whether the value at an index is the error that an interruption has raised.
int cl_is_interruption(lua_State *L, int index);
/// Writes the result of luaL_tolstring for the value at an index into the scratch buffer.
void cl_to_text(lua_State *L, int index);
int cl_new_thread(lua_State *L);
/// Calls a function with arguments, and adds a traceback to an error message; `was_interrupted` says afterwards whether
/// an interruption ended the call.
int cl_call_traced(lua_State *L, int arguments, int results);

/// Keeps the value at an index alive, and returns its slot, or 0 if there is no memory. Raises nothing.
uint32_t cl_anchor(lua_State *L, int index);
/// Makes strings and anchors them: `texts` are NUL-terminated texts in a row. Returns 0 if there is no memory.
int cl_anchor_texts(lua_State *L, const char *texts, uint32_t *slots, int count);
/// Releases an anchored value. Raises nothing; does nothing for 0, or after the state is closed.
void cl_let_go(cl_state *state, uint32_t slot);
/// Frees anchor slots that a burst has left unused. The call may take a millisecond.
void cl_shrink_anchors(cl_state *state);

/// After CL_YIELD the coroutine continues with the values that are pushed before lua_resume: either values to return,
/// or the light userdata `cl_raise_mark()` and an error value to raise.
void *cl_raise_mark(void);
/// A mark that stands for a single value to return: a string of `bytes_length` bytes at `bytes_start`.
void *cl_bytes_mark(void);
/// A mark that stands for pieces of those bytes; see cl_form.
void *cl_pieces_mark(void);

enum cl_option_kind { CL_IS_ABSENT, CL_IS_INTEGER, CL_IS_BOOLEAN, CL_IS_TEXT };
enum { CL_SKIP = 1, CL_WORDS_OPTION = 2, CL_ADJUST = 3 };
/// The options of a read function: two options that all read functions have, and a third one that differs.
typedef struct {
  lua_Number timeout;  ///< negative: absent
  lua_Integer max;     ///< 0: absent
  unsigned kind;       ///< the kind of the third option: a cl_option_kind
  lua_Integer integer;
  const char *text;
  size_t length;
} cl_options;
/// Reads a table of the options "timeout", "max" and a third one. Returns 0 if the value is not a table, or if the
/// table has other fields or values of other kinds. Raises nothing.
int cl_read_options(lua_State *L, int table, int third, cl_options *found);
enum { CL_FEW_PIECES = 8 };
/// Adds up the lengths, as text, of the arguments from `first` on: at most CL_FEW_PIECES strings and numbers. Returns
/// the index of the first argument of another type, or 0. Raises nothing.
int cl_measure_pieces(lua_State *L, int first, size_t *total);
/// Copies those arguments. Must be the next call after cl_measure_pieces.
void cl_copy_pieces(char *place);

#define CL_LARGEST_HEAD 1024
/// The head of a frame. Its last value is the length of the body.
typedef struct {
  int place;          ///< the format's place in the cache, from 1 on, until another format is read
  int size;           ///< size of the whole head
  int offset, width;  ///< place and size of the length in the head
  int is_big, is_signed;
} cl_frame;
/// Parses a format of string.pack. Returns NULL, or the problem with the format.
const char *cl_find_frame(const char *format, size_t length, cl_frame *found);

/// Pushes a new, empty object of a kind. Returns a Lua status.
int cl_push_new(lua_State *L, const cl_kind *kind);
/// Writes the number at an index as tostring does, and returns the text's length. Raises nothing.
size_t cl_number_text(lua_State *L, int index, char text[64]);

/// Returns the box of this kind at an index, or NULL.
static inline cl_box *cl_box_at(lua_State *L, int index, const cl_kind *kind) {
  cl_box *box = (cl_box *)lua_touserdata(L, index);
  return box && lua_rawlen(L, index) >= sizeof(cl_box) && box->kind == kind ? box : NULL;
}
/// Returns the box of any kind of this host at an index, or NULL.
cl_box *cl_any_box_at(lua_State *L, int index);

// rl.locals. Call these only when `locals` of the state is not 0; each does nothing if there are no values. If there is
// no memory, the values are lost.
/// Copies the values of the running task to the coroutine with this slot.
void cl_hand_locals_down(cl_state *state, uint32_t slot);
/// Gives the coroutine with this slot a copy of the values that were stored when the object was made.
void cl_adopt_locals(cl_state *state, lua_State *from, int object, uint32_t slot);
/// Removes the values of the coroutine with this slot, which has ended.
void cl_drop_locals(cl_state *state, uint32_t slot);

// Creation sites.
uint32_t cl_site_of_caller(lua_State *L);
/// Returns the short name of a site's source, and its line.
const char *cl_site(cl_state *state, uint32_t site, int *line);

/// Sets the hook of one of the host's coroutines before it is resumed. Called only while `has_hooks` is set. A
/// coroutine that begins gets the hook for all tasks; a coroutine that goes on keeps its hook.
void cl_hook_task(lua_State *L, int goes_on);

/// The texts that `lua -v` prints.
static inline const char *cl_copyright(void) { return LUA_COPYRIGHT; }
static inline const char *cl_release(void) { return LUA_RELEASE; }
/// Returns the version of this program.
const char *cl_version(void);
/// Pushes the Lua-written part of the library as a function, or an error value. The part is compiled once for all
/// states.
int cl_load_prelude(lua_State *L);
/// Pushes the function that adds `rl.notifications` to the library, its last argument, or an error value.
int cl_load_notifications(lua_State *L);

/// A function for Lua: (options, declaration, name of the function, number of the argument) -> the options. Raises the
/// error for the first problem; see misuse.fields in Lua.
int cl_check_fields(lua_State *L);
/// Pushes a private part of a module, or an error.
int cl_push_part(lua_State *L, const char *name);
/// Loads code of the host. Its globals are Lua's original functions and the `require` of the Lua-written parts.
int cl_load_own(lua_State *L, const char *text, size_t length);
/// Whether there is a built-in module with this name.
int cl_has_module(const char *name);
/// Pushes a built-in module as a function, or an error. Error positions and creation sites skip its frames.
int cl_load_module(lua_State *L, const char *name);
/// Pushes the text of a built-in module; the API reference is one of them. Returns a Lua status.
int cl_push_module_text(lua_State *L, const char *name);

/// Adds to this thread's count of live objects, and returns the count. For tests.
int cl_live_objects(int change);

int cl_warns(cl_state *state);  ///< whether warnings are on

/// Whether a signal should interrupt the calling thread, which must then stop waiting.
int cl_ends_waits(void);
/// realpath(3): returns NULL, or a text that cl_free_text frees.
char *cl_real_path(const char *path);
void cl_free_text(char *text);

// Signals.
/// Handles SIGINT, SIGTERM, SIGQUIT and SIGPIPE: notes them, and calls `notify` in the signal handler. SIGINT and
/// SIGTERM interrupt the Lua code that runs in `state`; SIGQUIT calls `explain` in it; SIGPIPE ends the process only if
/// the reader of standard output has gone. Must be called once, on the host's thread.
void cl_handle_signals(cl_state *state, void (*notify)(void), int (*is_waiting)(void),
                       void (*explain)(cl_state *state));
/// Interrupts the running Lua code because the process ends. If the code catches this error, interrupts it once more.
void cl_interrupt(cl_state *state);
void cl_forget_interrupts(void);  ///< discards an interruption that has done its work
/// Interrupts the running Lua code once, as SIGINT does; if no Lua code runs, interrupts the code that runs next.
void cl_interrupt_once(cl_state *state);
/// Lets a signal that came while no Lua code ran interrupt the code that runs now.
void cl_hand_interrupt_over(cl_state *state);
/// Sets a function that this thread calls before and after the program of `os.execute`.
void cl_set_around_program(void (*function)(int begins));
/// Sets how this process ends. The signal handler calls `last_words` before an unhandled signal ends the process; every
/// other end calls `end` with the exit status.
void cl_set_ends(void (*last_words)(void), void (*end)(int status));
/// Limits the time for closing a state because of a signal. If closing takes longer than three seconds, for example in
/// blocking C code, the signal ends the process.
void cl_limit_closing(int number);
/// Makes the Lua code of `state`, on the calling thread, cancellable until cl_end_cancelling. Returns the number by
/// which to cancel it.
uintptr_t cl_accept_cancelling(cl_state *state);
void cl_end_cancelling(void);
/// Cancels the Lua code of a thread that accepts it: raises the value that `state->cancelled` anchors, and raises it
/// once more if a loop catches the first error. May be called on any thread.
void cl_cancel_running(uintptr_t thread);
/// The place of a cancelled thread that is inside a C function.
typedef struct {
  char function[64];  ///< the function's name; empty if it has none
  char source[LUA_IDSIZE];
  int line;             ///< the line of Lua code that has called the function; 0 if there is none
  int64_t nanoseconds;  ///< time since the cancellation
} cl_whereabouts;
/// Finds the place of a thread that accepts cancelling; takes up to 50 ms. Returns 0 if the thread runs Lua code, waits
/// in its loop, or does not answer. May be called on any thread.
int cl_where_cancelled(uintptr_t thread, cl_whereabouts *whereabouts);
/// With `fail`, a cancellation makes system calls of the cancelled thread fail with EINTR, and raises its error only
/// once.
void cl_let_calls_fail(int fail);
/// Call it before and after reading a script's text: meanwhile SIGINT and SIGTERM end the process at once.
void cl_read_script(int reads);
/// Declares that there is a prompt, so that Control-C while a file is read does not end the process.
void cl_note_prompt(void);
/// While `defers` is set, the first SIGINT or SIGTERM is only noted and interrupts nothing. A second signal ends the
/// process.
void cl_defer_signals(int defers);
/// Clears the note of a signal. Returns whether there was one.
int cl_take_signal(int number);

// Requests from other processes, such as `rlhost attach`.
/// Requests of other threads and processes to the thread that runs Lua.
enum {
  CL_WISH_ATTACH = 1,     ///< make the process attachable
  CL_WISH_WHERE = 2,      ///< report the place of the running code
  CL_WISH_INTERRUPT = 4,  ///< end the running callback
  CL_WISH_DUMP = 8,       ///< dump the recorded last moments
  CL_WISH_RECORD = 16,    ///< start recording
  CL_WISH_END = 32,       ///< end the program, whose processor time is over
};
/// The value that another process sends with SIGURG by sigqueue. The value means CL_WISH_ATTACH; other values are
/// ignored.
enum { CL_ATTACH_WORD = 0x726c };
/// Handles SIGURG, or stops doing so. Must be called once, after cl_handle_signals.
void cl_watch_wishes(cl_state *state, int watches);
/// Handles SIGUSR2, which means CL_WISH_DUMP, if its action is the default. Must be called after cl_handle_signals.
void cl_watch_dumps(cl_state *state);
/// Sets the function that takes these requests while Lua code runs, on the host's thread. While no Lua code runs, the
/// loop takes them by cl_take_wishes.
void cl_grant_wishes(cl_state *state, void (*function)(cl_state *state, unsigned wishes));
/// May be called on any thread.
void cl_wish(cl_state *state, unsigned wish);
unsigned cl_take_wishes(void);
/// Lets `cl_end_entries` interrupt a running entry. Must be called once, on the host's thread, after cl_handle_signals;
/// without it nothing is interrupted. `is_in` returns whether the Lua code that is about to be interrupted belongs to
/// the entry.
void cl_watch_entries(cl_state *state, int (*is_in)(cl_state *state));
/// Declares that the host's thread runs the code of this entry from now on; 0 means no entry. Returns the previous
/// entry.
uint64_t cl_entry_runs(uint64_t entry);
/// Interrupts the running entry, as SIGINT does, if its number is between `first` and `last`; a late call cannot
/// interrupt another entry. `how_hard`: 0 interrupts once, as Control-C does; 1 also skips the message handlers of
/// xpcall; 2 also raises at each further instruction. Returns whether such an entry ran. May be called on any thread.
int cl_end_entries(cl_state *state, uint64_t first, uint64_t last, int how_hard);
/// Interrupts an entry from the host's thread: its code continues with the error.
void cl_interrupt_entry(cl_state *state, uint64_t entry);

// Constants that Swift does not import.
static const int cl_registry = LUA_REGISTRYINDEX;
static inline void lua_gc_collect(lua_State *L) { lua_gc(L, LUA_GCCOLLECT); }
/// Replaces the top `count` values by a table of them, or by the error on failure. Returns a Lua status.
int cl_collect_values(lua_State *L, int count);
// A collection in small steps, for a state that is idle.
/// Begins a collection. Returns 0 if none may begin now: because a script has stopped the collector, because a
/// finalizer runs, or because the beginning would take long.
int cl_begin_collection(cl_state *state);
/// Collects for about `nanoseconds`, and adds the processor time used to `spent`. Returns 1 at the end of a cycle, 0
/// within a cycle, -1 if the collection was ended meanwhile. Objects released by finalizers are freed in the next
/// cycle.
int cl_collect(cl_state *state, int64_t nanoseconds, int64_t *spent);
/// Ends the collection, and restores the mode that the script has chosen.
void cl_end_collection(cl_state *state);
static inline void cl_pop(lua_State *L, int n) { lua_settop(L, -n - 1); }
