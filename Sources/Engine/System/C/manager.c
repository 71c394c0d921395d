#define _GNU_SOURCE
#include "manager.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockets.h"

// The process that has reported that it is ready. A child inherits the manager's address, and must not speak for it.
static _Atomic pid_t ready;
static _Atomic int is_stopping;

static int has_line(const char *text, size_t count, const char *line) {
  const size_t length = strlen(line);
  for (const char *end = text + count; text < end;) {
    const char *next = memchr(text, '\n', (size_t)(end - text));
    const size_t size = (size_t)((next ? next : end) - text);
    if (size == length && memcmp(text, line, length) == 0) return 1;
    text += size + 1;
  }
  return 0;
}

int linux_notify_manager(const void *text, size_t count) {
  const char *place = getenv("NOTIFY_SOCKET");
  if (!place || !*place) return 0;
  if (linux_send_datagram(place, text, count) != 0) return -1;
  if (has_line(text, count, "READY=1")) atomic_store_explicit(&ready, getpid(), memory_order_relaxed);
  if (has_line(text, count, "STOPPING=1")) atomic_store_explicit(&is_stopping, 1, memory_order_relaxed);
  return 1;
}

void linux_notify_manager_of_end(void) {
  static const char text[] = "STOPPING=1";
  if (atomic_load_explicit(&ready, memory_order_relaxed) != getpid()) return;
  if (atomic_exchange_explicit(&is_stopping, 1, memory_order_relaxed)) return;
  linux_notify_manager(text, sizeof text - 1);
}
