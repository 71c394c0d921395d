// The command line of this process.
#pragma once

/// Returns the arguments, with the program's name first and NULL at the end. The arguments come from C's start-up code,
/// since /proc, which Swift reads, may be missing.
char **linux_arguments(void);

/// Returns the path by which the program was started, relative to the directory at that time; NULL if unknown.
const char *linux_executable(void);
