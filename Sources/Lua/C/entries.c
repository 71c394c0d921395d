// Requests of other threads and processes to the thread that runs Lua: to end an entry, or to report which code is
// running.
#include "private.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

// Entries -------------------------------------------------------------------------------------------------------------

// The running entry, and the entry that is to end. Entries are numbers, so that a late request cannot interrupt another
// entry.
static _Atomic uint64_t running_entry, unwanted_entry;
// See `how_hard` of cl_end_entries. 1: the sender has gone, so nobody can repeat the request. 2: the entry went on
// regardless, so each of its instructions raises.
static _Atomic int pressure;

int cl_entry_is_unwanted(void) {
  uint64_t running = atomic_load_explicit(&running_entry, memory_order_seq_cst);
  return running && running == atomic_load_explicit(&unwanted_entry, memory_order_seq_cst);
}

int cl_pressure_on_entry(void) {
  return cl_entry_is_unwanted() ? atomic_load_explicit(&pressure, memory_order_seq_cst) : 0;
}

uint64_t cl_exchange_entry(uint64_t entry) {
  if (!entry) atomic_store_explicit(&pressure, 0, memory_order_seq_cst);
  return atomic_exchange_explicit(&running_entry, entry, memory_order_seq_cst);
}

void cl_want_end_of_entry(uint64_t entry) { atomic_store_explicit(&unwanted_entry, entry, memory_order_seq_cst); }

int cl_press_entries(uint64_t first, uint64_t last, int how_hard) {
  uint64_t running = atomic_load_explicit(&running_entry, memory_order_seq_cst);
  if (!running || running < first || running > last) return 0;
  cl_want_end_of_entry(running);
  atomic_store_explicit(&pressure, how_hard, memory_order_seq_cst);
  return 1;
}

static int give_back(lua_State *L) {
  lua_settop(L, 1);
  return 1;
}

// Lua also calls message handlers for errors that a hook raises, and calls no hooks inside them: a handler in an
// endless loop could never be ended. So the handler of each xpcall on the stack, its second local value, is replaced.
void cl_disarm_handlers(lua_State *L) {
  enum { levels = 5000, handler = 2 };
  lua_CFunction xpcall = cl_state_of(L)->catchers[1];
  lua_Debug debug;
  if (!lua_checkstack(L, 2)) return;
  for (int level = 0; level < levels && lua_getstack(L, level, &debug); level++) {
    lua_getinfo(L, "f", &debug);
    int is_xpcall = lua_tocfunction(L, -1) == xpcall;
    lua_pop(L, 1);
    if (!is_xpcall) continue;
    lua_pushcfunction(L, give_back);
    if (!lua_setlocal(L, &debug, handler)) lua_pop(L, 1);
  }
}

// Wishes --------------------------------------------------------------------------------------------------------------

// The pending requests, a set of bits CL_WISH_…. They are fulfilled at Lua's next instruction, or when the loop wakes.
static _Atomic unsigned wishes;
static void (*grant)(cl_state *state, unsigned wishes);

int cl_has_wishes(void) { return atomic_load_explicit(&wishes, memory_order_seq_cst) != 0; }
void cl_note_wish(unsigned wish) { atomic_fetch_or_explicit(&wishes, wish, memory_order_seq_cst); }
unsigned cl_take_wishes(void) { return atomic_exchange_explicit(&wishes, 0, memory_order_seq_cst); }

void cl_grant_wishes(cl_state *state, void (*function)(cl_state *state, unsigned wishes)) {
  (void)state;
  grant = function;
}

unsigned cl_fulfil_wishes(cl_state *state) {
  unsigned taken = cl_take_wishes();
  if (taken && grant) grant(state, taken);
  return taken;
}

// Output without a reader ---------------------------------------------------------------------------------------------

// Ends a program that goes on writing after its standard output has failed and the reader has gone, as SIGPIPE would. A
// broken pipe of a socket is an error that the call on the socket reports.
void cl_end_if_nobody_reads(void) {
  struct pollfd output = {.fd = 1};
  if (!ferror(stdout) || poll(&output, 1, 0) <= 0 || !(output.revents & (POLLERR | POLLHUP))) return;
  cl_end(128 + SIGPIPE);
}
