// Services for the test runner: a time limit for tests, and a count of the runs of each line.
#include "private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>

// The watchdog --------------------------------------------------------------------------------------------------------

static cl_state *watched;
static lua_State *hooked;
static void (*watch_notify)(void);
static int (*watch_is_waiting)(void);
static double (*watch_left)(void);
static volatile sig_atomic_t time_is_over;

// Whether the watchdog limits the program's last tasks, and not a test.
static int only_cancels;

static int cancel(lua_State *L) {
  cl_guard(L, cancel);
  cl_state *state = cl_state_of(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state->anchors);
  lua_rawgeti(L, -1, state->cancelled);
  return lua_error(L);
}

static void on_time_over(lua_State *L, lua_Debug *debug) {
  if (only_cancels && cl_is_own_call(L, debug)) return;
  cl_set_usual_hook(L);
  cl_state_of(L)->raised_in_hook = 1;
  if (only_cancels && watched) cancel(L);
  else luaL_error(L, "the test takes too long");
}

static void on_stuck(lua_State *L, lua_Debug *debug) {
  (void)debug;
  cl_set_usual_hook(L);
  cl_state_of(L)->raised_in_hook = 1;
  luaL_error(L, "nothing is left that could end this run");
}

void cl_interrupt_stuck(cl_state *state) {
  lua_State *L = state->resumption ? state->resumption->coroutine : state->running;
  if (!L) return;
  hooked = L;
  lua_sethook(L, on_stuck, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

static void set_alarm(double seconds) {
  struct itimerval timer = {.it_interval.tv_sec = 1};
  timer.it_value.tv_sec = (time_t)seconds;
  timer.it_value.tv_usec = (suseconds_t)((seconds - (double)timer.it_value.tv_sec) * 1e6);
  if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0) timer.it_value.tv_usec = 1;
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void on_alarm(int number) {
  (void)number;
  int saved = errno;
  double left = watch_left && !time_is_over ? watch_left() : 0;
  if (left > 0) {
    set_alarm(left);
    errno = saved;
    return;
  }
  time_is_over = 1;
  cl_state *state = watched;
  if (state && !watch_is_waiting()) {
    lua_State *L = state->resumption ? state->resumption->coroutine : state->running ? state->running : state->main;
    hooked = L;
    if (L) lua_sethook(L, on_time_over, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
  }
  watch_notify();
  errno = saved;
}

int cl_time_is_over(void) { return time_is_over; }

void cl_watch(cl_state *state, double seconds, void (*notify)(void), int (*is_waiting)(void), double (*left)(void)) {
  static int is_installed;
  struct itimerval none = {0};
  setitimer(ITIMER_REAL, &none, NULL);
  if (seconds > 0) {
    watched = state;
    watch_notify = notify;
    watch_is_waiting = is_waiting;
    watch_left = left;
    time_is_over = 0;
    if (!is_installed) {
      struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
      sigemptyset(&action.sa_mask);
      sigaction(SIGALRM, &action, NULL);
      is_installed = 1;
    }
    return set_alarm(seconds);
  }
  watched = NULL;
  // The time limit was turned off, so remove the hook: it must not raise the error later.
  if (hooked) cl_set_usual_hook(hooked);
  hooked = NULL;
}

static void wake_nobody(void) {}

int cl_limit_last_task(cl_state *state, double seconds, int (*is_waiting)(void)) {
  // A watched test has its own limit, which ends earlier.
  if (watched && !only_cancels) return 0;
  const int was_over = only_cancels && time_is_over;
  only_cancels = seconds > 0;
  cl_watch(state, seconds, wake_nobody, is_waiting, NULL);
  return was_over;
}

// Counting lines ------------------------------------------------------------------------------------------------------

// A hash table from number to number.
typedef struct cl_numbers {
  uint64_t *keys, *values;  // a key of 0 marks a free place
  size_t count, capacity;   // a power of 2
} cl_numbers;

static size_t place_of(const cl_numbers *numbers, uint64_t key) {
  size_t at = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (numbers->capacity - 1);
  while (numbers->keys[at] && numbers->keys[at] != key) at = (at + 1) & (numbers->capacity - 1);
  return at;
}

static void drop_numbers(cl_numbers *numbers) {
  free(numbers->keys);
  free(numbers->values);
}

// Returns a pointer to a key's value, which is 0 at first; NULL if there is no memory.
static uint64_t *number_of(cl_numbers *numbers, uint64_t key) {
  if (numbers->count * 2 >= numbers->capacity) {
    cl_numbers larger = {.count = numbers->count, .capacity = numbers->capacity ? numbers->capacity * 2 : 256};
    larger.keys = calloc(larger.capacity, sizeof *larger.keys);
    larger.values = calloc(larger.capacity, sizeof *larger.values);
    if (!larger.keys || !larger.values) {
      drop_numbers(&larger);
      return NULL;
    }
    for (size_t i = 0; i < numbers->capacity; i++) {
      if (!numbers->keys[i]) continue;
      size_t at = place_of(&larger, numbers->keys[i]);
      larger.keys[at] = numbers->keys[i];
      larger.values[at] = numbers->values[i];
    }
    drop_numbers(numbers);
    *numbers = larger;
  }
  size_t at = place_of(numbers, key);
  if (!numbers->keys[at]) numbers->count++;
  numbers->keys[at] = key;
  return &numbers->values[at];
}

// The counts of one source, for all threads. The source is found by its name.
typedef struct cl_counts {
  char *source;
  cl_numbers numbers;  // counts by (line before << 24 | line)
} cl_counts;

// The line before the first line of a called function is NOWHERE. A call itself is counted as well: as a step from line
// CALLED to the line in which the function begins.
enum { CALLED = 0, NOWHERE = 0xffffff };

// All threads of a script add to the same counts.
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static cl_counts *sources;
static int source_count, source_capacity, last_source;
// The current line of each running function, by the address of Lua's record of its call.
static cl_numbers places;

static cl_counts *counts_of(const char *source) {
  if (last_source < source_count && strcmp(sources[last_source].source, source) == 0) return &sources[last_source];
  for (int i = 0; i < source_count; i++) {
    if (strcmp(sources[i].source, source) != 0) continue;
    last_source = i;
    return &sources[i];
  }
  if (source_count == source_capacity) {
    int capacity = source_capacity ? source_capacity * 2 : 64;
    cl_counts *larger = realloc(sources, (size_t)capacity * sizeof *larger);
    if (!larger) return NULL;
    sources = larger;
    source_capacity = capacity;
  }
  char *copy = strdup(source);
  if (!copy) return NULL;
  sources[source_count] = (cl_counts){.source = copy};
  last_source = source_count;
  return &sources[source_count++];
}

static void count(const lua_Debug *debug) {
  cl_counts *counts = counts_of(debug->source);
  uint64_t *place = number_of(&places, (uintptr_t)debug->i_ci);
  if (!counts || !place) return;
  int is_line = debug->event == LUA_HOOKLINE;
  int line = is_line ? debug->currentline : debug->linedefined;
  if (!is_line) *place = NOWHERE;
  if (line <= 0 || line >= NOWHERE) return;
  uint64_t *number = number_of(&counts->numbers, (is_line ? *place ? *place : NOWHERE : CALLED) << 24 | (uint64_t)line);
  if (number) ++*number;
  if (is_line) *place = (uint64_t)line;
}

static void on_event(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "S", debug);
  if (debug->source[0] != '@') return;
  pthread_mutex_lock(&counting);
  count(debug);
  pthread_mutex_unlock(&counting);
}

void cl_count_lines(lua_State *L, int on) {
  if (on >= 0) cl_count_with(on ? on_event : NULL);
  cl_set_usual_hook(L);
}

void cl_take_lines(void *context, void (*each)(void *context, const char *source, int64_t what, uint64_t count)) {
  pthread_mutex_lock(&counting);
  for (int i = 0; i < source_count; i++) {
    cl_numbers *numbers = &sources[i].numbers;
    for (size_t at = 0; at < numbers->capacity; at++)
      if (numbers->keys[at]) each(context, sources[i].source + 1, (int64_t)numbers->keys[at], numbers->values[at]);
    drop_numbers(numbers);
    free(sources[i].source);
  }
  source_count = last_source = 0;
  pthread_mutex_unlock(&counting);
}
