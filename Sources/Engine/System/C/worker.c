// The process in which tests run: its keeper, its channel to the runner, and the state that tests change.
#define _GNU_SOURCE
#include "CLinux.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

// The keeper ----------------------------------------------------------------------------------------------------------

static int kept;

// Returns the signal that warns a process before it is killed. By default this signal ends the process.
static int warning(void) { return SIGRTMIN + 6; }
enum { PATIENCE = 3 };

// The process gets three seconds for its final report.
static void on_end(int number) {
  kill(kept, number == SIGALRM ? SIGKILL : warning());
  alarm(PATIENCE);
}

// Returns whether a process is a guard: it watches the server of a test, and removes the server's directory.
static int is_guard(int process) {
  static const char mark[] = "\0rlhost-guard";
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/cmdline", process);
  ssize_t length = linux_read_file(path, text, sizeof text);
  return length > 0 && memmem(text, (size_t)length, mark, sizeof mark) != NULL;
}

// Kills all remaining child processes. Guards of servers get two seconds to end by themselves. Returns when all are
// gone, or after some seconds.
static void end_all(void) {
  int all[256];
  enum { PATIENCE_WITH_GUARDS = 2000 };
  struct timespec pause = {.tv_nsec = 1000000};
  for (int round = 0; round < 5000; round++) {
    // Children of processes that have ended become children of this one.
    int count = linux_children_of(getpid(), all, 256);
    for (int i = 0; i < count; i++)
      if (round >= PATIENCE_WITH_GUARDS || !is_guard(all[i])) kill(all[i], SIGKILL);
    int found;
    while ((found = waitpid(-1, NULL, WNOHANG)) > 0) {}
    if (found < 0) return;
    nanosleep(&pause, NULL);
  }
}

_Noreturn static void keep(void) {
  close_range(0, ~0U, 0);
  int status = 0, ended;
  do {
    ended = waitpid(-1, &status, 0);
  } while (ended >= 0 ? ended != kept : errno == EINTR);
  end_all();
  if (WIFSIGNALED(status)) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    sigset_t all;
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    kill(getpid(), WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void get_keeper(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  int above = getpid();
  kept = fork();
  if (kept > 0) {
    struct sigaction action = {.sa_handler = on_end};
    int numbers[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGALRM};
    for (int i = 0; i < 5; i++) sigaction(numbers[i], &action, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    keep();
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (kept < 0) return;
  // Signals to this process's group must not reach the keeper.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != above) _exit(1);
  linux_set_keeper(above);
}

// Last words ----------------------------------------------------------------------------------------------------------

void linux_set_last_words(void (*words)(void)) {
  static int is_ready;
  linux_at_death(LINUX_SAY_LAST_WORDS, words);
  if (is_ready) return;
  is_ready = 1;
  // The process may die of a stack overflow, and the final report needs a large stack.
  enum { SIZE = 1 << 20 };
  stack_t stack = {.ss_size = SIZE};
  stack.ss_sp = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, NULL);
}

// Addresses -----------------------------------------------------------------------------------------------------------

int linux_fix_addresses(void) {
  int now = personality(0xffffffff);
  if (now < 0) return 0;
  // Programs that this process starts have random addresses, as usual.
  if (now & ADDR_NO_RANDOMIZE) return personality((unsigned long)(now & ~ADDR_NO_RANDOMIZE)) >= 0;
  if (personality((unsigned long)(now | ADDR_NO_RANDOMIZE)) < 0) return 0;
  static char text[65536];
  char *arguments[1024];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
  ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  for (char *at = text; at < text + length && count < 1023; at += strlen(at) + 1) arguments[count++] = at;
  arguments[count] = NULL;
  if (length > 0 && length < (ssize_t)sizeof text - 1 && count < 1023) execv("/proc/self/exe", arguments);
  personality((unsigned long)now);
  return 0;
}

// The channel to the runner -------------------------------------------------------------------------------------------

static int channel = -1, output = -1;

int linux_worker_channel(void) { return channel; }

int linux_worker_output(void) { return output; }

static void on_pipe(int number) { (void)number; }

void linux_become_worker(void) {
  get_keeper();
  // A high number keeps the descriptor away from scripts; programs do not inherit it.
  channel = fcntl(3, F_DUPFD_CLOEXEC, 900);
  output = fcntl(1, F_DUPFD_CLOEXEC, 900);
  if (channel >= 0) close(3);
  else channel = 3;
  if (output < 0) output = 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  // SIGPIPE gets a handler instead of SIG_IGN, which programs would inherit.
  struct sigaction action = {.sa_handler = on_pipe, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPIPE, &action, NULL);
}

int linux_restore_output(void) {
  struct stat kept, now;
  if (output == 1 || fstat(output, &kept)) return 0;
  if (fstat(1, &now) == 0 && now.st_dev == kept.st_dev && now.st_ino == kept.st_ino) return 0;
  dup2(output, 1);
  clearerr(stdout);
  return 1;
}

// The state that tests change: the current directory, the environment, ignored signals and the locale -----------------

extern char **environ;

static struct {
  char directory[4096], locale[256];
  char **variables;  // copies, with NULL at the end
  struct sigaction signals[32];
} noted;

static int is_noted(const char *entry) {
  for (char **at = noted.variables; at && *at; at++)
    if (strcmp(*at, entry) == 0) return 1;
  return 0;
}

static int environment_is_same(void) {
  char **a = noted.variables, **b = environ;
  while (a && *a && b && *b && strcmp(*a, *b) == 0) a++, b++;
  return (!a || !*a) && (!b || !*b);
}

static void note_environment(void) {
  if (environment_is_same()) return;
  for (char **at = noted.variables; at && *at; at++) free(*at);
  free(noted.variables);
  size_t count = 0;
  while (environ && environ[count]) count++;
  noted.variables = calloc(count + 1, sizeof *noted.variables);
  for (size_t i = 0; noted.variables && i < count; i++) noted.variables[i] = strdup(environ[i]);
}

void linux_note_state(void) {
  if (!getcwd(noted.directory, sizeof noted.directory)) *noted.directory = 0;
  const char *locale = setlocale(LC_ALL, NULL);
  snprintf(noted.locale, sizeof noted.locale, "%s", locale ? locale : "C");
  note_environment();
  for (int i = 1; i < 32; i++) sigaction(i, NULL, &noted.signals[i]);
}

static void say(void *context, void (*each)(void *, const char *), const char *text, const char *what) {
  char line[4400];
  snprintf(line, sizeof line, text, what);
  each(context, line);
}

void linux_restore_state(void *context, void (*each)(void *context, const char *change)) {
  char now[4096];
  if (!getcwd(now, sizeof now)) strcpy(now, "a deleted directory");
  if (*noted.directory && strcmp(now, noted.directory) != 0 && chdir(noted.directory) == 0)
    say(context, each, "directory (the current one is %s)", now);
  if (!environment_is_same()) {
    char name[256];
    for (char **at = environ; at && *at;) {
      snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
      if (is_noted(*at)) {
        at++;
        continue;
      }
      say(context, each, "environment (%s has changed)", name);
      if (unsetenv(name)) at++;
      else at = environ;
    }
    for (char **at = noted.variables; at && *at; at++) {
      const char *value = strchr(*at, '=');
      if (!value) continue;
      snprintf(name, sizeof name, "%.*s", (int)(value - *at), *at);
      const char *current = getenv(name);
      if (!current) say(context, each, "environment (%s is gone)", name);
      if (!current || strcmp(current, value + 1) != 0) setenv(name, value + 1, 1);
    }
  }
  for (int i = 1; i < 32; i++) {
    struct sigaction action;
    // Modules for sockets ignore SIGPIPE permanently when they are loaded.
    if (i == SIGPIPE) continue;
    // Do not touch handlers: modules set them once for the whole process.
    if (sigaction(i, NULL, &action)) continue;
    if ((action.sa_handler == SIG_IGN) == (noted.signals[i].sa_handler == SIG_IGN)) continue;
    sigaction(i, &noted.signals[i], NULL);
    say(context, each, action.sa_handler == SIG_IGN ? "signal (%s is ignored)" : "signal (%s is no longer ignored)",
        sigabbrev_np(i) ? sigabbrev_np(i) : "one");
  }
  const char *locale = setlocale(LC_ALL, NULL);
  if (locale && strcmp(locale, noted.locale) != 0) {
    say(context, each, "locale (%s)", locale);
    setlocale(LC_ALL, noted.locale);
  }
}

void linux_set_zone(const char *name) {
  const char *now = getenv("TZ");
  if (name ? now && strcmp(now, name) == 0 : !now) return;
  if (name) setenv("TZ", name, 1);
  else unsetenv("TZ");
  tzset();
}
