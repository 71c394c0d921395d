#include "arguments.h"

#include <stdlib.h>
#include <string.h>

// Swift's library brings a constructor that looks for the program's arguments in /proc before `main`, an eighth of what a short script's
// start takes, for a function that nothing here calls: `Arguments` has them from the C library. With the two in place here the linker has
// no use for that part of Swift's library. They are weak: where it is linked all the same, as in a build with shared libraries, either
// will do.

/// The arguments, copied: whoever asks owns them.
__attribute__((weak)) char **_swift_stdlib_getUnsafeArgvArgc(int *count);
__attribute__((weak)) void _swift_stdlib_overrideUnsafeArgvArgc(char **arguments, int count);

char **_swift_stdlib_getUnsafeArgvArgc(int *count) {
  char **given = linux_arguments();
  for (*count = 0; given && given[*count];) ++*count;
  char **copy = calloc((size_t)*count + 1, sizeof *copy);
  if (!copy) *count = 0;
  for (int i = 0; i < *count; i++) copy[i] = strdup(given[i]);
  return copy;
}

// Nothing of ours overrides them.
void _swift_stdlib_overrideUnsafeArgvArgc(char **arguments, int count) {
  (void)arguments;
  (void)count;
}
