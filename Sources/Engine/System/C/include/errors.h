// Error numbers, and what they are called.
#pragma once

#include <errno.h>

/// The calling thread's error number.
static inline int linux_errno(void) { return errno; }

/// "ENOENT"; "EUNKNOWN" for a number that is none.
const char *linux_error_name(int number);

/// "No such file or directory".
const char *linux_error_text(int number);
