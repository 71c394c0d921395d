// Shared libraries that are opened at their first use.
#pragma once

#include <stddef.h>

/// A library, and what is wanted of it. Static: one for the process.
struct linux_library {
  const char *name;     ///< "libssl.so.3"
  const char *package;  ///< "libssl3"
  /// Finds its functions. NULL, or what is wrong with it: "has no SSL_new: it is too old". Not called by two threads at once, and after
  /// NULL never again.
  const char *(*bind)(void *handle);
  int is_ready;
};

/// 0 once the library can be used. Otherwise an error number, and `text` gets why: ENOPKG when it, or one that it needs, is not installed
/// or of no use; EMFILE, ENFILE or ENOMEM when it cannot be opened for now. It is tried again at each call. Thread-safe.
int linux_use_library(struct linux_library *library, char *text, size_t size);
