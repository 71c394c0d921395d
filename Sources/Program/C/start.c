#define _GNU_SOURCE
#include "CProgram.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
enum { TRAP = SIGILL };
#else
enum { TRAP = SIGTRAP };
#endif

// Returns whether the process has caused the signal itself, by a fault or abort(). A signal that another process sends
// needs no explanation.
static int is_own(int number, const siginfo_t *info) {
  return number == SIGABRT ? info->si_code == SI_TKILL && info->si_pid == getpid() : info->si_code > 0;
}

// If Swift cannot continue, it ends the process by an illegal instruction. If memory is short, it ends the process by
// abort() or a fault.
static void on_trap(int number, siginfo_t *info, void *context) {
  (void)context;
  static const char no_memory[] = "rlhost: not enough memory\n";
  static const char other[] = "rlhost: ended by an internal failure, or for lack of memory\n";
  if (is_own(number, info)) {
    void *room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
      (void)!write(STDERR_FILENO, no_memory, sizeof no_memory - 1);
      _exit(1);
    }
    (void)!write(STDERR_FILENO, other, sizeof other - 1);
  }
  signal(number, SIG_DFL);
  raise(number);
}

void program_explain_traps(void) {
  // The handler runs on a stack of its own, because the normal one may be exhausted.
  static char room[1 << 14];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_NODEFER | SA_ONSTACK | SA_SIGINFO};
  sigaction(TRAP, &action, NULL);
  sigaction(SIGABRT, &action, NULL);
  sigaction(SIGSEGV, &action, NULL);
}

// Runs before the constructors of all libraries, including Swift's.
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = program_explain_traps;
