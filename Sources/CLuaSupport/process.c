#define _GNU_SOURCE
#include "CLuaSupport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// Programs -------------------------------------------------------------------------------------------------------------

extern char **environ;

int cl_start_program(const cl_program *program, int *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure) return failure;
  failure = posix_spawnattr_init(&attributes);
  if (failure) {
    posix_spawn_file_actions_destroy(&actions);
    return failure;
  }
  if (program->directory) failure = posix_spawn_file_actions_addchdir_np(&actions, program->directory);
  for (int i = 0; i < 4 && !failure; i++) {
    int from = program->descriptors[i];
    if (i < 3 && program->terminal) {
      // Opening it makes it the terminal of the session that begins here.
      failure = i == 0 ? posix_spawn_file_actions_addopen(&actions, 0, program->terminal, O_RDWR, 0)
                       : posix_spawn_file_actions_adddup2(&actions, 0, i);
    } else if (from >= 0) {
      failure = posix_spawn_file_actions_adddup2(&actions, from, i);
    } else if (i < 3) {
      failure = posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
    }
  }
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                (program->terminal ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  if (!failure)
    failure = posix_spawnp(pid, program->arguments[0], &actions, &attributes, program->arguments,
                           program->environment ? program->environment : environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure;
}

int cl_program_ended(int pid, int *number) {
  int status = 0;
  pid_t found = waitpid(pid, &status, WNOHANG);
  if (found == 0) return 0;
  if (found < 0) return -1;
  *number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return WIFSIGNALED(status) ? 2 : 1;
}

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int cl_watch_program(int pid) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  return fd < 0 ? -errno : fd;
}

int cl_has_children(void) {
  siginfo_t info = {0};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static int lift(int fd) {
  if (fd < 0 || fd >= 10) return fd;
  int higher = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  return higher;
}

int cl_make_pipe(int ends[2], int two_way) {
  if (two_way ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) return errno;
  ends[0] = lift(ends[0]);
  ends[1] = lift(ends[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return 0;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  return EMFILE;
}

int cl_open_terminal(int rows, int columns, char *name, size_t size) {
  int master = lift(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (master < 0) return -errno;
  if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, size) ||
      cl_resize_terminal(master, rows, columns)) {
    int failure = errno;
    close(master);
    return -failure;
  }
  return master;
}

int cl_resize_terminal(int master, int rows, int columns) {
  struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
  return ioctl(master, TIOCSWINSZ, &size) ? errno : 0;
}

int cl_set_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? errno : 0;
}

// One system call for all.
void cl_open_descriptors(unsigned char *open, int count) {
  struct pollfd all[256];
  for (int first = 0; first < count; first += 256) {
    int n = count - first < 256 ? count - first : 256;
    for (int i = 0; i < n; i++) all[i] = (struct pollfd){.fd = first + i};
    poll(all, (nfds_t)n, 0);
    for (int i = 0; i < n; i++) open[first + i] = !(all[i].revents & POLLNVAL);
  }
}

static void on_pipe(int number) { (void)number; }

void cl_become_worker(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  // A handler, which programs that it starts do not inherit.
  struct sigaction action = {.sa_handler = on_pipe, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPIPE, &action, NULL);
}

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

static void on_alarm(int number) {
  (void)number;
  int saved = errno;
  time_is_over = 1;
  cl_host *host = watched;
  if (host && !watch_is_waiting()) {
    lua_State *L = host->running ? host->running : host->main;
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
