#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

// Swift's library requests the two halves of its hash seed before `main`. This file computes them from random bytes
// that the kernel passes to each process. Everything else, such as SystemRandomNumberGenerator, still asks the kernel.
// The definition is weak, as in arguments.c.
//
// Costs if removed: 3 system calls of a start.

__attribute__((weak)) void swift_stdlib_random(void *bytes, size_t count);

// The C library's secrets come from the same bytes of the kernel. So mix the bits: nobody must be able to compute these
// secrets from a hash value.
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Stores a half of the seed, which has 8 bytes. Returns 0 if this is not the beginning of the process.
static int give_seed(void *bytes, size_t count) {
  static atomic_int halves;
  const void *given = (const void *)getauxval(AT_RANDOM);
  if (!given || count != sizeof(uint64_t) || atomic_load_explicit(&halves, memory_order_relaxed) > 1) return 0;
  uint64_t words[2];
  memcpy(words, given, sizeof words);
  const int half = atomic_fetch_add_explicit(&halves, 1, memory_order_relaxed);
  if (half > 1) return 0;
  const uint64_t seed = mix(mix(words[half]) + words[!half]);
  memcpy(bytes, &seed, sizeof seed);
  return 1;
}

void swift_stdlib_random(void *bytes, size_t count) {
  if (give_seed(bytes, count)) return;
  for (char *next = bytes; count > 0;) {
    const ssize_t got = getrandom(next, count < 256 ? count : 256, 0);
    if (got < 0 && errno != EINTR) abort();
    if (got <= 0) continue;
    next += got;
    count -= (size_t)got;
  }
}
