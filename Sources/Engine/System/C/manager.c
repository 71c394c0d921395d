#define _GNU_SOURCE
#include "manager.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockets.h"

// The process that has reported that it is ready. A child inherits the manager's address, but must not report the end
// of its parent.
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

static const char stopping[] = "STOPPING=1";

// Returns 1 if the message was sent, 0 if there is no manager, -1 on an error.
static int send_to_manager(const void *text, size_t count) {
  const char *place = getenv("NOTIFY_SOCKET");
  if (!place || !*place) return 0;
  return linux_send_datagram(place, text, count) == 0 ? 1 : -1;
}

int linux_notify_manager(const void *text, size_t count) {
  // A shutdown function may report the end that the host has already reported.
  const int is_known = count == sizeof stopping - 1 && memcmp(text, stopping, count) == 0;
  if (is_known && atomic_load_explicit(&is_stopping, memory_order_relaxed)) return 1;
  const int result = send_to_manager(text, count);
  if (result != 1) return result;
  if (has_line(text, count, "READY=1")) atomic_store_explicit(&ready, getpid(), memory_order_relaxed);
  if (has_line(text, count, stopping)) atomic_store_explicit(&is_stopping, 1, memory_order_relaxed);
  return 1;
}

void linux_notify_manager_of_end(void) {
  if (atomic_load_explicit(&ready, memory_order_relaxed) != getpid()) return;
  if (atomic_exchange_explicit(&is_stopping, 1, memory_order_relaxed)) return;
  send_to_manager(stopping, sizeof stopping - 1);
}
