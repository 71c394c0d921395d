// Error numbers and their names.
#pragma once

#include <errno.h>

/// Returns the calling thread's errno.
static inline int linux_errno(void) { return errno; }

/// Returns a name such as "ENOENT"; "EUNKNOWN" for a number that is not an error.
const char *linux_error_name(int number);

/// Returns a text such as "No such file or directory".
const char *linux_error_text(int number);
