#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)
#define MUCH (2 * MEGABYTE)  // giving back less would cost more page faults later than it is worth
#define MORE (MEGABYTE / 4)  // differences from the last time that are smaller do not matter
#define SECOND 1000000000

// Returns 0 if unknown, as in a sandbox that hides /proc.
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

// Called by one thread at a time: the one that has set `next`. Malloc counts pages as unused even after it has given
// them back. So there is something to give back only if one of these is true: more bytes are unused than after the last
// time; fewer bytes are used than at any time since; the process has grown.
static void give_back(void) {
  static _Atomic size_t least_unused, most_used, least_resident;
  struct mallinfo2 info = mallinfo2();
  size_t unused = info.fordblks, used = info.uordblks + info.hblkhd;
  if (unused < least_unused) least_unused = unused;
  if (used > most_used) most_used = used;
  if (unused < MUCH || unused < used / 4) return;
  // Trim large heaps less often, since malloc then checks each unused block.
  size_t more = MORE + used / 64;
  if (unused < least_unused + more && used + more > most_used) {
    size_t resident = resident_size();
    if (resident < least_resident) least_resident = resident;
    if (resident < least_resident + more) return;
  }
  malloc_trim(0);
  least_unused = unused;
  most_used = used;
  least_resident = resident_size();
}

int64_t linux_give_memory_back(int64_t now) {
  static _Atomic int64_t next;           // the time before which calls have no effect
  static _Atomic int64_t promised;       // the time at which some thread has promised to call again
  static _Thread_local int64_t promise;  // the last promise of this thread; the thread may wake and call earlier
  int64_t date = next;
  if (now >= date &&
      atomic_compare_exchange_strong_explicit(&next, &date, now + SECOND, memory_order_seq_cst, memory_order_seq_cst)) {
    give_back();
    return INT64_MAX;
  }
  // At least one of the waiting threads must call again.
  if (promise != date) {
    int64_t other = promised;
    if (other >= date ||
        !atomic_compare_exchange_strong_explicit(&promised, &other, date, memory_order_seq_cst, memory_order_seq_cst))
      return INT64_MAX;
    promise = date;
  }
  return date > now ? date - now : 0;
}
