// Makes a state whose tables have the same order in each run, for `rlhost test`, where one seed decides all random
// choices.
//
// Lua 5.4 seeds its string hash with the time and three addresses: of the new state, of a variable on the stack, and of
// lua_newstate. In a process without random addresses the address of lua_newstate is the same in each run. This file
// fixes the other two addresses and the time: it makes the state on a stack and in memory at fixed addresses, and
// replaces the time by the seed.
//
// Costs if removed: in 20 runs with one seed, `pairs` over 40 names would have 20 orders instead of 1.
#define _GNU_SOURCE
#include "private.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#define STACK ((size_t)262144)

static atomic_int is_fixed;
static unsigned fixed_seed;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

// The program defines `time`, so Lua's library calls this function instead of the C library's.
static _Thread_local int is_making;

time_t time(time_t *where) {
  struct timespec now = {.tv_sec = (time_t)fixed_seed};
  if (!is_making) clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}

void cl_fix_seed(unsigned seed) {
  fixed_seed = seed;
  atomic_store_explicit(&is_fixed, 1, memory_order_seq_cst);
}

typedef struct {
  cl_state *state;
  void *block;  // memory for the state itself, until Lua takes it
  lua_State *made;
} task;

// Lua's first allocation is the block of the state.
static void *allocate_first(void *data, void *old, size_t old_size, size_t new_size) {
  task *making = data;
  if (old || !making->block || new_size > CL_SLOT) return cl_allocate(making->state, old, old_size, new_size);
  void *block = making->block;
  making->block = NULL;
  making->state->bytes += new_size;
  making->state->blocks++;
  return block;
}

static void *make(void *data) {
  task *task = data;
  is_making = 1;
  // The slabs belong to this thread meanwhile.
  task->state->thread = cl_this_thread();
  task->made = lua_newstate(allocate_first, task);
  is_making = 0;
  return NULL;
}

static int run(task *task) {
  void *stack = cl_map_at(CL_SLOTS_BEGIN - STACK, STACK);
  if (!stack) return 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, STACK);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int failure = pthread_create(&thread, &attributes, make, task);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failure) pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  munmap(stack, STACK);
  return !failure;
}

lua_State *cl_new_state(cl_state *state, lua_Alloc allocate) {
  // Blocks of malloc do not have fixed addresses.
  if (!atomic_load_explicit(&is_fixed, memory_order_seq_cst) || allocate != cl_allocate)
    return lua_newstate(allocate, state);
  pthread_mutex_lock(&making);
  void *slot = cl_take_slot();
  task task = {.state = state, .block = slot};
  int has_run = slot && run(&task);
  state->thread = cl_this_thread();
  if (slot && task.block) cl_free_slot(slot);  // Lua has not taken the block, so free it
  pthread_mutex_unlock(&making);
  if (!has_run) return lua_newstate(allocate, state);
  if (task.made) lua_setallocf(task.made, allocate, state);
  return task.made;
}
