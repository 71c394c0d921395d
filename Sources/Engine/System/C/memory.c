#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)
#define MUCH (8 * MEGABYTE)  // below, giving back is not worth the page faults of taking again
#define MORE (4 * MEGABYTE)  // by how much things have to differ from the last time
#define SECOND 1000000000

// 0: unknown, as in a sandbox that hides /proc.
static size_t resident_size(void) {
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  char *rest;
  strtoul(text, &rest, 10);
  return strtoul(rest, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

// Called by one thread at a time, the one that has moved the date of the next call. Malloc also counts pages as free that
// it has given back: without a difference to the last time there is nothing to give.
static void give_back(void) {
  static _Atomic size_t last_unused, last_resident;
  struct mallinfo2 info = mallinfo2();
  size_t unused = info.fordblks, used = info.uordblks + info.hblkhd;
  if (unused < last_unused) last_unused = unused;
  if (unused < MUCH || unused < used / 4) return;
  if (unused < last_unused + MORE && resident_size() < last_resident + MORE) return;
  malloc_trim(0);
  last_unused = unused;
  last_resident = resident_size();
}

int64_t linux_give_memory_back(int64_t now) {
  static _Atomic int64_t next;      // the date of the next call that does something
  static _Atomic int64_t promised;  // up to here, some thread will make that call
  int64_t date = next;
  if (now >= date && atomic_compare_exchange_strong(&next, &date, now + SECOND)) {
    give_back();
    return INT64_MAX;
  }
  // One of the threads comes back; which one does not matter.
  int64_t promise = promised;
  if (promise >= date || !atomic_compare_exchange_strong(&promised, &promise, date)) return INT64_MAX;
  return date > now ? date - now : 0;
}
