// What the test runner has of a state: an end for tests that take too long, and how often each line ran.
#include "private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

// The watchdog -----------------------------------------------------------------------------------------------------------

static cl_host *watched;
static lua_State *hooked;
static void (*watch_notify)(void);
static int (*watch_is_waiting)(void);
static volatile sig_atomic_t time_is_over;
static cl_host *counted;
static void on_line(lua_State *L, lua_Debug *debug);

static void on_time_over(lua_State *L, lua_Debug *debug) {
  (void)debug;
  cl_hook_new_thread(L);
  luaL_error(L, "the test takes too long");
}

static void on_stuck(lua_State *L, lua_Debug *debug) {
  (void)debug;
  cl_hook_new_thread(L);
  luaL_error(L, "nothing is left that could end this run");
}

void cl_interrupt_stuck(cl_host *host) {
  lua_State *L = host->resumption ? host->resumption->coroutine : host->running;
  if (!L) return;
  hooked = L;
  lua_sethook(L, on_stuck, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

static void on_alarm(int number) {
  (void)number;
  int saved = errno;
  time_is_over = 1;
  cl_host *host = watched;
  if (host && !watch_is_waiting()) {
    lua_State *L = host->resumption ? host->resumption->coroutine : host->running ? host->running : host->main;
    hooked = L;
    if (L) lua_sethook(L, on_time_over, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
  }
  watch_notify();
  errno = saved;
}

int cl_time_is_over(void) { return time_is_over; }

void cl_watch(cl_host *host, double seconds, void (*notify)(void), int (*is_waiting)(void)) {
  static int is_installed;
  struct itimerval timer = {0};
  if (seconds > 0) {
    watched = host;
    watch_notify = notify;
    watch_is_waiting = is_waiting;
    time_is_over = 0;
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = (suseconds_t)((seconds - (double)timer.it_value.tv_sec) * 1e6);
    if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0) timer.it_value.tv_usec = 1;
    timer.it_interval.tv_sec = 1;
    if (!is_installed) {
      struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
      sigemptyset(&action.sa_mask);
      sigaction(SIGALRM, &action, NULL);
      is_installed = 1;
    }
  }
  setitimer(ITIMER_REAL, &timer, NULL);
  if (seconds > 0) return;
  watched = NULL;
  // Nobody must run into it later.
  if (hooked) cl_hook_new_thread(hooked);
  hooked = NULL;
}

// Counting lines -----------------------------------------------------------------------------------------------------------

// One for each source, found by the address of its text; the text is kept, so that the address stays its own.
typedef struct cl_counts {
  const char *address;
  char *source;
  uint64_t *lines;
  int capacity;
} cl_counts;

static cl_counts *sources;
static int source_count, source_capacity, last_source;

static cl_counts *counts_of(const char *source) {
  if (last_source < source_count && sources[last_source].address == source &&
      strcmp(sources[last_source].source, source) == 0)
    return &sources[last_source];
  for (int i = 0; i < source_count; i++) {
    if (sources[i].address != source || strcmp(sources[i].source, source) != 0) continue;
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
  sources[source_count] = (cl_counts){.address = source, .source = copy};
  last_source = source_count;
  return &sources[source_count++];
}

static void on_line(lua_State *L, lua_Debug *debug) {
  lua_getinfo(L, "S", debug);
  if (debug->source[0] != '@') return;
  cl_counts *counts = counts_of(debug->source);
  int line = debug->currentline;
  if (!counts || line <= 0) return;
  if (line >= counts->capacity) {
    int capacity = counts->capacity ? counts->capacity * 2 : 256;
    while (capacity <= line) capacity *= 2;
    uint64_t *larger = realloc(counts->lines, (size_t)capacity * sizeof *larger);
    if (!larger) return;
    memset(larger + counts->capacity, 0, (size_t)(capacity - counts->capacity) * sizeof *larger);
    counts->lines = larger;
    counts->capacity = capacity;
  }
  counts->lines[line]++;
}

void cl_hook_new_thread(lua_State *L) {
  if (counted && counted == cl_host_of(L)) lua_sethook(L, on_line, LUA_MASKLINE, 0);
  else lua_sethook(L, NULL, 0, 0);
}

void cl_count_lines(cl_host *host, int on) {
  counted = on ? host : NULL;
  lua_sethook(host->main, on ? on_line : NULL, on ? LUA_MASKLINE : 0, 0);
}

void cl_take_lines(void *context, void (*each)(void *context, const char *source, int line, uint64_t count)) {
  for (int i = 0; i < source_count; i++) {
    for (int line = 1; line < sources[i].capacity; line++)
      if (sources[i].lines[line]) each(context, sources[i].source + 1, line, sources[i].lines[line]);
    free(sources[i].lines);
    free(sources[i].source);
  }
  source_count = last_source = 0;
}
