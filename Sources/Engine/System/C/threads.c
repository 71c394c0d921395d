#define _GNU_SOURCE
#include "threads.h"

_Thread_local void *linux_thread_pointer;
static pthread_key_t key;
// The function that drops a thread's value; all threads set the same one.
static void (*_Atomic dropper)(void *);

_Thread_local int linux_is_first_thread;

static void drop_value(void *value) { dropper(value); }

// This is a constructor, since pthread_once makes a system call even if no thread waits.
__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, drop_value); }

// The thread-local variable makes reading fast; the key exists for its destructor.
void linux_set_thread_value(void *value, void (*drop)(void *)) {
  if (drop) {
    dropper = drop;
    pthread_setspecific(key, value);
  }
  linux_thread_pointer = value;
}
