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

// Swift ends a process by an illegal instruction where it cannot go on: for want of memory, mostly.
static void on_trap(int number) {
  static const char no_memory[] = "rlhost: not enough memory\n";
  static const char other[] = "rlhost: ended by a failure inside, or for want of memory\n";
  void *room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    (void)!write(STDERR_FILENO, no_memory, sizeof no_memory - 1);
    _exit(1);
  }
  (void)!write(STDERR_FILENO, other, sizeof other - 1);
  signal(number, SIG_DFL);
  raise(number);
}

void program_explain_traps(void) {
  struct sigaction action = {.sa_handler = on_trap, .sa_flags = SA_NODEFER};
  sigaction(TRAP, &action, NULL);
}

// Before the constructors of all libraries, of which Swift's are some.
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = program_explain_traps;
