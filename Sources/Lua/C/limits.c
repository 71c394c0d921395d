// Limits for running Lua code: memory, processor time, and the time for which a callback blocks its loop.
//
// For processor time there is a timer on the thread's CPU clock, or on the process's CPU clock for the main state. For
// callbacks, a thread of the host checks whether `turns` has changed, which shows that the callback has ended. Both
// send SIGURG to the thread. The signal's handler makes Lua call a hook.
#define _GNU_SOURCE
#include "limit.h"
#include "private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSOR = 1, HELD = 2 };
// Code that goes on after its processor time is over is interrupted again after this much processor time. Later
// interruptions come more and more often, since a thousand finalizers or tasks may each go on. If no Lua code runs when
// the signal comes, the next signal comes soon.
enum { SOON_NANOSECONDS = 10000000, AGAIN = 100 };
// If the main state has not ended after this number of ticks, because a C function goes on, the process ends.
enum { MOST_TICKS = 300 };

static _Thread_local struct {
  cl_state *state;
  volatile sig_atomic_t over;   // the limits that were reached, for which the hook must raise an error
  volatile sig_atomic_t pause;  // ticks of the processor timer until the error is raised again
  volatile uint64_t turn;       // the callback that holds the loop
  timer_t timer;
  int has_timer;
  char processor[48], held[48];
  uint64_t raised_turn;  // the last callback that got the error
  int is_main, times, ticks;
  void (*reached)(cl_state *state, int times);
  int (*is_in_run)(cl_state *state);
} own;

// The address of this variable distinguishes the watcher's signals from others.
static const char watchers_word;

// Pushes the text of a limit with the position of the script's innermost line.
static void push_text(lua_State *L, const char *text) {
  lua_Debug debug;
  const char *source = NULL;
  int line = 0;
  for (int level = 0; level < 16 && !source && lua_getstack(L, level, &debug); level++) {
    if (!cl_is_scripts(L, &debug)) continue;
    source = lua_pushstring(L, debug.short_src);
    line = debug.currentline;
  }
  if (source) lua_pushfstring(L, "%s:%d: %s", source, line, text);
  else lua_pushstring(L, text);
}

static int raise_processor(lua_State *L) {
  cl_guard(L, raise_processor);
  cl_state *state = cl_state_of(L);
  own.times++;
  own.pause = AGAIN / own.times;
  own.reached(state, own.times);
  if (own.times > 1) cl_disarm_handlers(L);
  if (!own.is_main && !state->finalizing) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
    lua_rawgeti(L, -1, state->cancelled);
    return lua_error(L);
  }
  push_text(L, own.processor);
  if (own.times > 1) cl_note_interruption(L);
  return lua_error(L);
}

static int raise_held(lua_State *L) {
  cl_guard(L, raise_held);
  if (own.turn == own.raised_turn) cl_disarm_handlers(L);
  own.raised_turn = own.turn;
  push_text(L, own.held);
  return lua_error(L);
}

static void on_limit(lua_State *L, lua_Debug *debug) {
  if (cl_is_own_call(L, debug) || cl_is_in_part(L)) return;
  if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
  else cl_give_hook_back(L);
  cl_forget_hook();
  int over = own.over;
  own.over = 0;
  cl_state *state = cl_state_of(L);
  if (!lua_checkstack(L, 8)) return;
  if (over & PROCESSOR) raise_processor(L);
  // Before its first wait, the main chunk cannot hold up the loop, which does not run yet.
  if (over & HELD && own.turn == state->turns && own.is_in_run && own.is_in_run(state)) raise_held(L);
}

// Async-signal-safe.
static _Noreturn void end_process(void) {
  static const char before[] = "rlhost: ", after[] = ", and a function of C goes on\n";
  struct iovec pieces[] = {
      {(void *)before, sizeof before - 1}, {own.processor, strlen(own.processor)}, {(void *)after, sizeof after - 1}};
  ssize_t ignored = writev(STDERR_FILENO, pieces, 3);
  (void)ignored;
  _exit(1);
}

static int heed(const siginfo_t *info) {
  int what = 0;
  if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &own) what = PROCESSOR;
  else if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &watchers_word && info->si_pid == getpid())
    what = HELD;
  if (!what) return 0;
  cl_state *state = own.state;
  if (state && what == PROCESSOR && own.is_main && ++own.ticks > MOST_TICKS) end_process();
  if (state && what == PROCESSOR && own.is_main && ((!state->running && !state->finalizing) || cl_is_main_waiting())) {
    // If the main thread only waits, other threads have used the processor time: ask the main thread to end the
    // program.
    if (own.ticks % AGAIN == 1) cl_note_wish(CL_WISH_END);
    return 0;
  }
  lua_State *L = !state ? NULL : state->running || state->resumption ? cl_innermost(state) : state->finalizing;
  if (!L) return 1;
  if (what == PROCESSOR && own.pause > 0) {
    own.pause = own.pause - 1;
    return 1;
  }
  own.turn = state->turns;
  // Lua has called no hook since the last signal, so allow hooks again.
  if (own.over & what) cl_allow_hooks(L);
  own.over = own.over | what;
  cl_displace_hook(L, on_limit, cl_on_guarded_call);
  return 1;
}

// Memory --------------------------------------------------------------------------------------------------------------

// The states that share a limit. Each state checks the memory of the others when its own has grown by a portion.
static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static cl_state *sharers;
static size_t shared_limit;
enum { PORTION = 64 << 10 };

static size_t limit_of(const cl_state *state) {
  size_t others = 0;
  if (!state->shares_memory) return state->bytes_limit;
  pthread_mutex_lock(&sharing);
  for (cl_state *it = sharers; it; it = it->next_sharer)
    if (it != state) others += __atomic_load_n(&it->bytes, __ATOMIC_RELAXED);
  size_t left = others < shared_limit ? shared_limit - others : 0;
  pthread_mutex_unlock(&sharing);
  return left < state->bytes_limit ? left : state->bytes_limit;
}

static void place_mark(cl_state *state, size_t bytes) {
  size_t next = state->shares_memory && state->bytes_collect > bytes + PORTION ? bytes + PORTION : state->bytes_collect;
  state->bytes_mark = next;
}

static void set_mark(cl_state *state) {
  size_t limit = limit_of(state), bytes = state->bytes;
  size_t middle = bytes < limit ? bytes + (limit - bytes) / 2 : limit;
  state->bytes_collect = middle > limit / 2 ? middle : limit / 2;
  place_mark(state, bytes);
}

static void on_mark(lua_State *L, lua_Debug *debug) {
  // Do not raise at the call of a function that closes a variable: parts of an error may still be on the stack.
  if (debug->event != LUA_HOOKLINE && debug->event != LUA_HOOKCOUNT) return;
  if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
  else cl_give_hook_back(L);
  cl_forget_hook();
  cl_state *state = cl_state_of(L);
  if (lua_gc(L, LUA_GCISRUNNING) == 1) lua_gc(L, LUA_GCCOLLECT);
  set_mark(state);
}

// When an allocation fails, Lua collects its garbage and tries again. But it does not try again for the buffers in
// which library functions build long strings. Such an allocation would fail although a collection would free enough
// memory.
static int pass_mark(cl_state *state, size_t bytes) {
  size_t limit = limit_of(state), middle = bytes + (limit - bytes) / 2;
  int is_within = bytes <= limit, is_little = is_within && bytes <= state->bytes_collect;
  // So make the hook collect garbage earlier: at the next instruction after half of the free memory was used.
  if (is_within && !(is_little && middle > state->bytes_collect)) state->bytes_collect = middle;
  if (is_within) place_mark(state, bytes);
  if (is_little) return 1;
  lua_State *L = state->main ? cl_innermost(state) : NULL;
  if (L) cl_displace_hook(L, on_mark, cl_on_guarded_call);
  return is_within;
}

void cl_limit_memory(cl_state *state, size_t bytes) {
  state->bytes_limit = bytes;
  state->pass_mark = pass_mark;
  set_mark(state);
}

void cl_share_memory(cl_state *state) {
  pthread_mutex_lock(&sharing);
  if (shared_limit && !state->shares_memory) {
    state->shares_memory = 1;
    state->next_sharer = sharers;
    sharers = state;
  }
  pthread_mutex_unlock(&sharing);
  if (state->shares_memory) cl_limit_memory(state, state->bytes_limit);
}

void cl_limit_all_memory(cl_state *state, size_t bytes) {
  pthread_mutex_lock(&sharing);
  shared_limit = bytes;
  pthread_mutex_unlock(&sharing);
  cl_share_memory(state);
}

void cl_end_sharing(cl_state *state) {
  if (!state->shares_memory) return;
  pthread_mutex_lock(&sharing);
  cl_state **link = &sharers;
  while (*link != state) link = &(*link)->next_sharer;
  *link = state->next_sharer;
  pthread_mutex_unlock(&sharing);
  state->shares_memory = 0;
}

// Time ----------------------------------------------------------------------------------------------------------------

static void begin(cl_state *state) {
  own.state = state;
  cl_prepare_hooks();
  cl_heed_first(heed);
  cl_expect_urgent();
}

static int limit(cl_state *state, clockid_t clock, double seconds, void (*reached)(cl_state *state, int times)) {
  begin(state);
  own.is_main = clock == CLOCK_PROCESS_CPUTIME_ID;
  own.times = own.ticks = 0;
  own.reached = reached;
  snprintf(own.processor, sizeof own.processor, "limit: %.10g s of processor time", seconds);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG, .sigev_value.sival_ptr = &own};
  event._sigev_un._tid = gettid();
  if (timer_create(clock, &event, &own.timer) != 0) return errno;
  own.has_timer = 1;
  struct itimerspec time = {.it_interval.tv_nsec = SOON_NANOSECONDS, .it_value.tv_sec = (time_t)seconds};
  time.it_value.tv_nsec = (long)((seconds - (double)time.it_value.tv_sec) * 1e9);
  if (time.it_value.tv_sec == 0 && time.it_value.tv_nsec == 0) time.it_value.tv_nsec = 1;
  return timer_settime(own.timer, 0, &time, NULL) == 0 ? 0 : errno;
}

int cl_limit_processor(cl_state *state, double seconds, void (*reached)(cl_state *state, int times)) {
  return limit(state, CLOCK_THREAD_CPUTIME_ID, seconds, reached);
}

int cl_limit_all_processor(cl_state *state, double seconds, void (*reached)(cl_state *state, int times)) {
  return limit(state, CLOCK_PROCESS_CPUTIME_ID, seconds, reached);
}

const char *cl_processor_limit(void) { return own.processor; }

uintptr_t cl_limit_callbacks(cl_state *state, double seconds, int (*is_in_run)(cl_state *state)) {
  begin(state);
  own.is_in_run = is_in_run;
  snprintf(own.held, sizeof own.held, "limit: held the loop for %.10g s", seconds);
  return (uintptr_t)pthread_self();
}

void cl_report_held(uintptr_t thread) {
  pthread_sigqueue((pthread_t)thread, SIGURG, (union sigval){.sival_ptr = (void *)&watchers_word});
}

void cl_end_limits(cl_state *state) {
  if (own.state != state) return;
  own.state = NULL;
  if (own.has_timer) timer_delete(own.timer);
  own.has_timer = 0;
}
