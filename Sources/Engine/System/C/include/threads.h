// Threads and their process.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Lets other threads run.
static inline void linux_yield(void) { sched_yield(); }

/// Makes waits of this thread end as exactly as the hardware allows. By default, the kernel may be 50 microseconds
/// late.
static inline void linux_be_punctual(void) { prctl(PR_SET_TIMERSLACK, 1UL); }

/// Names the calling thread, for debuggers and `ps`; the kernel keeps 15 bytes.
static inline void linux_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

static inline int linux_thread_number(void) { return (int)syscall(SYS_gettid); }

/// The number of the thread that runs the program, if that is not the first thread of the process (see linux_run_main);
/// else 0.
extern int linux_main_thread;
/// Whether this thread is the first thread of the process.
extern _Thread_local int linux_is_first_thread __attribute__((tls_model("initial-exec")));
static inline int linux_is_main_thread(void) {
  return linux_main_thread ? linux_thread_number() == linux_main_thread : linux_is_first_thread;
}

// The thread-local model matters: each `signal` of a source reads this variable while a loop records.
extern _Thread_local void *linux_thread_pointer __attribute__((tls_model("initial-exec")));

/// Each thread stores a pointer to its run loop. When the thread ends, the C library calls `drop` with the pointer.
static inline void *linux_thread_value(void) { return linux_thread_pointer; }
void linux_set_thread_value(void *value, void (*drop)(void *));

static inline uint32_t linux_user(void) { return geteuid(); }
static inline int32_t linux_process(void) { return getpid(); }
static inline const char *linux_environment(const char *name) { return getenv(name); }
/// All variables as "NAME=value", with NULL at the end.
extern char **environ;
static inline char **linux_variables(void) { return environ; }

/// Writes a value. Another thread that reads the value with linux_published also sees everything that was written
/// before the value.
static inline void linux_publish(uint64_t *place, uint64_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }
static inline uint64_t linux_published(const uint64_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }
/// Copies bytes that another thread may be writing. The caller must check afterwards, with linux_published, which of
/// the bytes were complete. ThreadSanitizer does not check this function.
__attribute__((no_sanitize("thread"))) static inline void linux_peek(void *to, const void *from, size_t size) {
  volatile char *target = (volatile char *)to;
  const volatile char *source = (const volatile char *)from;
  while (size >= 8 && ((uintptr_t)source & 7) == 0 && ((uintptr_t)target & 7) == 0) {
    *(volatile uint64_t *)target = *(const volatile uint64_t *)source;
    target += 8, source += 8, size -= 8;
  }
  for (size_t i = 0; i < size; i++) target[i] = source[i];
}
