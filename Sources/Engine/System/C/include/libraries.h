// Shared libraries that are opened at their first use.
#pragma once

#include <stddef.h>

/// A library and its functions. Static: one for the process.
struct linux_library {
  const char *name;     ///< such as "libssl.so.3"
  const char *package;  ///< such as "libssl3"
  /// Finds the library's functions. Returns NULL, or the problem: "has no SSL_new: it is too old". The function is
  /// never called by two threads at once, and not again after NULL.
  const char *(*bind)(void *handle);
  int is_ready;
};

/// Opens a library. Returns 0 if it can be used; otherwise an errno, and `text` gets the reason: ENOPKG if the library,
/// or another one that it needs, is not installed or unusable; EMFILE, ENFILE or ENOMEM if it cannot be opened now.
/// Each call tries again. Thread-safe.
int linux_use_library(struct linux_library *library, char *text, size_t size);
