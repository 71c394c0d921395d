// What this process was started with.
#pragma once

/// The words, the program's name first, with NULL at the end. From C's start-up code: /proc, where Swift looks for them, may not be there.
char **linux_arguments(void);

/// The path by which the kernel was asked to start it, relative to the directory of that moment; NULL if it does not say.
const char *linux_executable(void);
