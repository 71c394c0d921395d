#define _GNU_SOURCE
#include "threads.h"

_Thread_local void *linux_thread_pointer;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
// The same function for all threads.
static void (*_Atomic dropper)(void *);

static void make_key(void) { pthread_key_create(&key, dropper); }

// The thread-local variable makes reading fast; the key exists for its destructor.
void linux_set_thread_value(void *value, void (*drop)(void *)) {
  if (drop) {
    dropper = drop;
    pthread_once(&once, make_key);
    pthread_setspecific(key, value);
  }
  linux_thread_pointer = value;
}
