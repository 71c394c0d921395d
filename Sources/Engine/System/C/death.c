#define _GNU_SOURCE
#include "death.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

static void (*volatile acts[LINUX_LAST_ACTS])(void);

// For each signal: the handler that was set here, and the action before it.
static struct guarded {
  void (*handler)(int, siginfo_t *, void *);
  int is_crash;
  struct sigaction before;
} guarded[NSIG];
// The process that set the actions. A child that a C module has forked must not do these actions.
static pid_t owner;

void linux_do_last_acts(void) {
  if (owner != getpid()) return;
  const int saved = errno;
  for (int i = 0; i < LINUX_LAST_ACTS; i++) {
    void (*act)(void) = acts[i];
    acts[i] = NULL;
    if (act) act();
  }
  errno = saved;
}

static void on_death(int number, siginfo_t *information, void *context) {
  const struct sigaction *before = &guarded[number].before;
  linux_do_last_acts();
  sigaction(number, before, NULL);
  // Calls a handler with SA_SIGINFO directly, so that it gets the signal's origin.
  if (before->sa_flags & SA_SIGINFO) before->sa_sigaction(number, information, context);
  else raise(number);
  // After a real fault, just return: the fault repeats, now with the action that was set before. If another process has
  // sent the signal, no fault repeats, so raise the signal.
  if (information->si_code > 0 && guarded[number].is_crash) return;
  linux_raise_default(number);
}

void linux_raise_default(int number) {
  signal(number, SIG_DFL);
  raise(number);
  // The default action does not end process 1.
  if (getpid() == 1) _exit(128 + number);
}

void linux_guard_signal(int number, int is_crash, void (*handler)(int, siginfo_t *, void *)) {
  struct guarded *one = &guarded[number];
  struct sigaction present;
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART};
  sigemptyset(&action.sa_mask);
  one->handler = handler;
  one->is_crash = is_crash;
  if (sigaction(number, NULL, &present) != 0 || present.sa_sigaction == handler) return;
  if (present.sa_handler == SIG_IGN || (present.sa_handler != SIG_DFL && !is_crash)) return;
  one->before = present;
  sigaction(number, &action, NULL);
}

void linux_guard_signal_again(int number) {
  const struct guarded *one = &guarded[number];
  if (one->handler && owner == getpid()) linux_guard_signal(number, one->is_crash, one->handler);
}

void linux_guard_end(int number) { linux_guard_signal(number, 0, on_death); }

void linux_at_death(enum linux_last_act act, void (*function)(void)) {
  static char room[1 << 14];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  stack_t present;
  const int is_first = owner != getpid();
  acts[act] = function;
  if (!is_first) return;
  owner = getpid();
  // The handler needs a stack of its own, since the overflow of the normal stack also causes crashes.
  if (sigaltstack(NULL, &present) == 0 && present.ss_flags & SS_DISABLE) sigaltstack(&stack, NULL);
  static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) linux_guard_signal(crashes[i], 1, on_death);
  static const int ends[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE,
                             SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO,   SIGPWR,  SIGSTKFLT};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) linux_guard_end(ends[i]);
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) linux_guard_end(number);
}
