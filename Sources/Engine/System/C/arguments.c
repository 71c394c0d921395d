#include "arguments.h"

#include <sys/auxv.h>

static char **words;

// The C library calls this constructor with the arguments of `main`.
__attribute__((constructor)) static void keep(int count, char **arguments, char **environment) {
  (void)count;
  (void)environment;
  words = arguments;
}

char **linux_arguments(void) { return words; }

const char *linux_executable(void) { return (const char *)getauxval(AT_EXECFN); }
