// Limits of what running Lua code may take: memory, processor time, and time during which a callback holds its loop.
//
// The processor time has a timer of the thread's clock. The other limit is watched by a thread of the host's, which
// sees in `turns` that a callback still runs. Both send SIGURG to the thread, whose handler makes Lua call a hook.
#define _GNU_SOURCE
#include "limit.h"
#include "private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSOR = 1, HELD = 2 };
// Code that goes on after its processor time is over is interrupted again after this time of the processor. If no Lua
// code runs when the signal comes, the next one comes soon.
enum { SOON_NANOSECONDS = 10000000, AGAIN = 100 };

static _Thread_local struct {
  cl_state *state;
  volatile sig_atomic_t over;  // what the hook has to raise
  volatile sig_atomic_t pause; // ticks of the processor's timer until it is raised again
  volatile uint64_t turn;      // the callback that holds the loop
  timer_t timer;
  int has_timer;
  char processor[48], held[48];
  int cancels, times;
  void (*reached)(cl_state *state, int times);
  int (*is_in_run)(cl_state *state);
} own;

// Its address tells the watcher's signals from others.
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
  own.pause = AGAIN;
  own.times++;
  own.reached(state, own.times);
  if (own.cancels) {
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
  // The main chunk before its first wait holds up no loop.
  if (over & HELD && own.turn == state->turns && own.is_in_run && own.is_in_run(state)) raise_held(L);
}

static int heed(const siginfo_t *info) {
  int what = 0;
  if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &own) what = PROCESSOR;
  else if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &watchers_word && info->si_pid == getpid())
    what = HELD;
  if (!what) return 0;
  cl_state *state = own.state;
  if (!state || !state->running) return 1;
  if (what == PROCESSOR && own.pause > 0) {
    own.pause = own.pause - 1;
    return 1;
  }
  own.turn = state->turns;
  own.over = own.over | what;
  cl_displace_hook(cl_innermost(state), on_limit, cl_on_guarded_call);
  return 1;
}

// Memory --------------------------------------------------------------------------------------------------------------

static void set_mark(cl_state *state) {
  size_t limit = state->bytes_limit, bytes = state->bytes;
  size_t middle = bytes < limit ? bytes + (limit - bytes) / 2 : limit;
  state->bytes_mark = middle > limit / 2 ? middle : limit / 2;
}

static void on_mark(lua_State *L, lua_Debug *debug) {
  // Not at the call of a function that closes a variable: what an error has left is still on the stack then.
  if (debug->event != LUA_HOOKLINE && debug->event != LUA_HOOKCOUNT) return;
  if (cl_is_guarding) lua_sethook(L, cl_on_guarded_call, LUA_MASKCALL, 0);
  else cl_give_hook_back(L);
  cl_forget_hook();
  cl_state *state = cl_state_of(L);
  if (lua_gc(L, LUA_GCISRUNNING) == 1) lua_gc(L, LUA_GCCOLLECT);
  set_mark(state);
}

// Lua collects its garbage when an allocation fails, and tries again. The buffers of its library, in which functions
// make long strings, do not: they would fail for want of memory that is only garbage. So the garbage is collected
// before, at the next instruction, when half of what was free is used.
static int pass_mark(cl_state *state, size_t bytes) {
  int is_within = bytes <= state->bytes_limit;
  if (is_within) state->bytes_mark = bytes + (state->bytes_limit - bytes) / 2;
  lua_State *L = state->main ? cl_innermost(state) : NULL;
  if (L) cl_displace_hook(L, on_mark, cl_on_guarded_call);
  return is_within;
}

void cl_limit_memory(cl_state *state, size_t bytes) {
  state->bytes_limit = bytes;
  state->pass_mark = pass_mark;
  set_mark(state);
}

// Time ----------------------------------------------------------------------------------------------------------------

static void begin(cl_state *state) {
  own.state = state;
  cl_heed_first(heed);
  cl_expect_urgent();
}

int cl_limit_processor(cl_state *state, double seconds, int cancels, void (*reached)(cl_state *state, int times)) {
  begin(state);
  own.cancels = cancels;
  own.times = 0;
  own.reached = reached;
  snprintf(own.processor, sizeof own.processor, "limit: %.10g s of processor time", seconds);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG, .sigev_value.sival_ptr = &own};
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &own.timer) != 0) return errno;
  own.has_timer = 1;
  struct itimerspec time = {.it_interval.tv_nsec = SOON_NANOSECONDS, .it_value.tv_sec = (time_t)seconds};
  time.it_value.tv_nsec = (long)((seconds - (double)time.it_value.tv_sec) * 1e9);
  if (time.it_value.tv_sec == 0 && time.it_value.tv_nsec == 0) time.it_value.tv_nsec = 1;
  return timer_settime(own.timer, 0, &time, NULL) == 0 ? 0 : errno;
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
