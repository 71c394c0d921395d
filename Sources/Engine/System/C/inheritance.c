#define _GNU_SOURCE
#include "inheritance.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static void reset_signals(void) {
  struct sigaction inherited;
  if (sigaction(SIGCHLD, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN) signal(SIGCHLD, SIG_DFL);
  // The signals that this process needs: signals that end it, and signals between its threads.
  static const int needed[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGURG, SIGALRM};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) sigaddset(&set, needed[i]);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int is_unsafe(const char *variable) {
  static const char *const names[] = {"LUA_INIT", "LUA_PATH", "LUA_CPATH", "RLHOST_"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(variable, names[i], strlen(names[i])) == 0) return 1;
  return 0;
}

// The dynamic loader removes its own variables in the same way.
static void remove_unsafe_variables(void) {
  char **kept = environ;
  if (!kept) return;
  for (char **each = environ; *each; each++)
    if (!is_unsafe(*each)) *kept++ = *each;
  *kept = NULL;
}

void linux_make_inheritance_safe(void) {
  reset_signals();
  if (getauxval(AT_SECURE)) remove_unsafe_variables();
}
