#include "libraries.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// dlopen reports no error number. But its message ends with the text of an errno, in the language of the process, so
// compare that text.
static int error_of(const char *reason) {
  static const int passing[] = {EMFILE, ENFILE, ENOMEM};
  for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
    if (strstr(reason, strerror(passing[i]))) return passing[i];
  return ENOPKG;
}

// Initializes OpenSSL without its exit handler, before another library can initialize OpenSSL with the handler. If C
// code calls `exit`, that handler would free memory that other threads are using in a handshake.
static void initialize_openssl(void) {
  enum { NO_EXIT_HANDLER = 0x00080000 };  // OPENSSL_INIT_NO_ATEXIT
  static int is_done;
  void *crypto = is_done ? NULL : dlopen("libcrypto.so.3", RTLD_NOW | RTLD_NOLOAD);
  if (!crypto) return;
  is_done = 1;
  int (*initialize)(uint64_t options, const void *settings);
  *(void **)&initialize = dlsym(crypto, "OPENSSL_init_crypto");
  if (initialize) initialize(NO_EXIT_HANDLER, NULL);
}

static int open_library(struct linux_library *library, char *text, size_t size) {
  void *handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
  if (handle) {
    initialize_openssl();
    const char *problem = library->bind(handle);
    if (problem) {
      snprintf(text, size, "%s %s", library->name, problem);
      dlclose(handle);
      return ENOPKG;
    }
    __atomic_store_n(&library->is_ready, 1, __ATOMIC_RELEASE);
    return 0;
  }
  const char *reason = dlerror();
  if (!reason) reason = "unknown reason";
  int error = error_of(reason);
  size_t length = strlen(library->name);
  if (error != ENOPKG) {
    const char *what = linux_error_text(error);
    snprintf(text, size, "%c%s (%s)", tolower((unsigned char)what[0]), what + 1, library->name);
  } else if (strncmp(reason, library->name, length) == 0 && reason[length] == ':' && strstr(reason, strerror(ENOENT))) {
    snprintf(text, size, "%s is not installed (apt install %s)", library->name, library->package);
  } else {
    snprintf(text, size, "%s cannot be loaded: %s", library->name, reason);
  }
  return error;
}

int linux_use_library(struct linux_library *library, char *text, size_t size) {
  if (__atomic_load_n(&library->is_ready, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&lock);
  int error = library->is_ready ? 0 : open_library(library, text, size);
  pthread_mutex_unlock(&lock);
  return error;
}
