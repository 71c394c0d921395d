// The memory of a Lua state.
//
// Nearly all blocks that Lua asks for are small, and most of them short-lived: userdata, strings, closures, tables. A
// state belongs to one thread, so small blocks can come from slabs of blocks of one size, with no header and no lock:
// they cost a quarter of what malloc costs. Larger blocks come from malloc. To find out whether a block came from a
// slab, the allocator checks the block's page. It does not rely on the old size: C modules that call a state's
// allocator may pass a wrong one, which other allocators accept.
#define _GNU_SOURCE
#include "private.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLAB 4096            // bytes of a slab, and its alignment, so that a block's address determines its slab
#define CHUNK 16             // slabs that are mapped at a time
#define SPAN (SLAB * CHUNK)  // bytes of a chunk, which is aligned to this size
#define KEPT 8               // empty chunks that the process keeps for later states: 512 kB
#define WHOLE 2              // the number of chunks of the process that get all their pages at once
#define GROWN (1 << 20)      // a state with more bytes than this also gets all pages of further chunks at once
#define STEP 16              // alignment that a userdata of a C module may need
#define LARGEST (STEP * CL_POOL_CLASSES)

// The sanitizers bring their own allocator.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOLS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define POOLS 0
#endif
#endif
#ifndef POOLS
#define POOLS 1
#endif

// ThreadSanitizer ends a program that has memory at an address of its choice.
#if defined(__SANITIZE_THREAD__)
#define HAS_FIXED_ADDRESSES 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_FIXED_ADDRESSES 0
#endif
#endif
#ifndef HAS_FIXED_ADDRESSES
#define HAS_FIXED_ADDRESSES 1
#endif

// Blocks of one size. A slab with room is in the list of its size.
typedef struct cl_slab {
  uintptr_t mark;  // a number by which a slab is recognized
  struct cl_slab *next, *previous;
  struct cl_chunk *chunk;
  void *free;      // freed blocks; each begins with the address of the next
  uint16_t size;   // bytes of a block
  uint16_t used;   // number of blocks in use
  uint16_t fresh;  // offset of the first block that was never used
  uint16_t end;    // offset of the end
} cl_slab;

// Slabs in a row; this struct follows the head of the first slab.
typedef struct cl_chunk {
  struct cl_chunk *next, *previous;
  cl_slab *free;         // freed slabs, linked by `next`
  unsigned used, fresh;  // as in a slab
} cl_chunk;

_Static_assert(sizeof(cl_slab) % STEP == 0 && sizeof(cl_chunk) % STEP == 0, "blocks begin after them");

#define LINK(list, x)                         \
  do {                                        \
    (x)->previous = NULL;                     \
    (x)->next = *(list);                      \
    if ((x)->next) (x)->next->previous = (x); \
    *(list) = (x);                            \
  } while (0)
#define UNLINK(list, x)                                 \
  do {                                                  \
    if ((x)->next) (x)->next->previous = (x)->previous; \
    if ((x)->previous) (x)->previous->next = (x)->next; \
    else *(list) = (x)->next;                           \
  } while (0)

static uintptr_t mark_of(const cl_state *state) { return (uintptr_t)state ^ 0x9E3779B97F4A7C15u; }

// Returns the slab of a block, or NULL if the block came from malloc. No block of malloc begins in the page of a slab.
static cl_slab *slab_of(const cl_state *state, void *block) {
  cl_slab *s = (cl_slab *)((uintptr_t)block & ~(uintptr_t)(SLAB - 1));
  return POOLS && s->mark == mark_of(state) ? s : NULL;
}

static int has_room(const cl_slab *s) { return s->free || s->fresh + s->size <= s->end; }
static int has_slabs(const cl_chunk *c) { return c->free || c->fresh < CHUNK; }

static cl_slab **list_of(cl_state *state, size_t size) { return &state->slabs[(size - 1) / STEP]; }

static cl_slab *slab_at(cl_chunk *c, unsigned i) { return (cl_slab *)((char *)((cl_slab *)c - 1) + SLAB * i); }

// Chunks come from mmap, not malloc, so that an empty chunk can be returned to the system wherever it lies. Some empty
// chunks are kept. Costs if removed: sixteen page faults for each chunk of each new thread.
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static void *kept[KEPT];
static unsigned kept_count;

static void *take_kept(void) {
  pthread_mutex_lock(&keeping);
  void *span = kept_count > 0 ? kept[--kept_count] : NULL;
  pthread_mutex_unlock(&keeping);
  return span;
}

static int keep_span(void *span) {
  pthread_mutex_lock(&keeping);
  int has_room = kept_count < KEPT;
  if (has_room) kept[kept_count++] = span;
  pthread_mutex_unlock(&keeping);
  return has_room;
}

static void *map_pages(void *near, size_t size, int flags) {
  void *start = mmap(near, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return start == MAP_FAILED ? NULL : start;
}

// Returns an aligned span. Passes an aligned address that is most often free as a hint to the kernel; without a hint,
// cutting an aligned span out of a larger mapping takes four more calls. The first hint is some megabytes below a
// thread-local variable, since the addresses of such variables are random. Further hints follow it.
//
// The first spans, which every script uses, get their pages at once, and so do the spans of a state that grows.
// Otherwise each page would cost a page fault.
//
// Costs if removed: 30 page faults of a script that requires runloop, and a twentieth of the time of a burst of posts.
static void *map_span(int is_whole) {
  static const size_t below = 16 << 20;
  static char *next;
  char *near = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (!near) near = (char *)(((uintptr_t)&errno - below) & ~(uintptr_t)(SPAN - 1));
  static unsigned count;
  is_whole |= __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) < WHOLE;
  char *start = map_pages(near, SPAN, is_whole ? MAP_POPULATE : 0);
  if ((uintptr_t)start & (SPAN - 1)) {
    munmap(start, SPAN);
    if (!(start = map_pages(NULL, 2 * SPAN, 0))) return NULL;
    size_t excess = (uintptr_t)start & (SPAN - 1);
    size_t before = excess ? SPAN - excess : 0;
    if (before) munmap(start, before);
    start += before;
    munmap(start + SPAN, SPAN - before);
  }
  if (start) __atomic_store_n(&next, start - SPAN, __ATOMIC_RELAXED);
  return start;
}

static cl_chunk *new_chunk(cl_state *state) {
  cl_slab *first = take_kept();
  if (!first && !(first = map_span(state->bytes > GROWN))) return NULL;
  cl_chunk *c = (cl_chunk *)(first + 1);
  *c = (cl_chunk){0};
  LINK(&state->chunks, c);
  return c;
}

static void free_chunk(cl_chunk **list, cl_chunk *c) {
  UNLINK(list, c);
  for (unsigned i = 0; i < c->fresh; i++) slab_at(c, i)->mark = 0;
  void *span = slab_at(c, 0);
  // If munmap fails because the process has too many mappings, return at least the pages.
  if (!keep_span(span) && munmap(span, SPAN) != 0) madvise(span, SPAN, MADV_DONTNEED);
}

static cl_slab *new_slab(cl_state *state, size_t size) {
  cl_chunk *c = state->chunks ? state->chunks : new_chunk(state);
  if (!c) return NULL;
  cl_slab *s = c->free;
  if (s) c->free = s->next;
  else s = slab_at(c, c->fresh++);
  c->used++;
  if (!has_slabs(c)) {
    UNLINK(&state->chunks, c);
    LINK(&state->full_chunks, c);
  }
  size = (size + STEP - 1) / STEP * STEP;
  size_t head = sizeof *s + (s == slab_at(c, 0) ? sizeof *c : 0);
  *s = (cl_slab){.mark = mark_of(state), .chunk = c, .size = (uint16_t)size, .fresh = (uint16_t)head, .end = SLAB};
  LINK(list_of(state, size), s);
  return s;
}

__attribute__((noinline)) static void free_slab(cl_state *state, cl_slab *s) {
  UNLINK(list_of(state, s->size), s);
  cl_chunk *c = s->chunk;
  if (!has_slabs(c)) {
    UNLINK(&state->full_chunks, c);
    LINK(&state->chunks, c);
  }
  s->next = c->free;
  c->free = s;
  if (--c->used == 0) free_chunk(&state->chunks, c);
}

// Takes back the blocks that other threads have freed: only the owner of a slab may change it.
static void take_back(cl_state *state);

// Takes a block of the first slab of a list.
static inline void *take_from(cl_slab **list) {
  cl_slab *s = *list;
  void *block = s->free;
  if (block) {
    s->free = *(void **)block;
  } else {
    block = (char *)s + s->fresh;
    s->fresh += s->size;
  }
  s->used++;
  if (!has_room(s)) UNLINK(list, s);
  return block;
}

static void *take(cl_state *state, size_t size) {
  if (!POOLS || size > LARGEST) return malloc(size);
  cl_slab **list = list_of(state, size);
  if (!*list) {
    if (__atomic_load_n(&state->returned, __ATOMIC_RELAXED)) take_back(state);
    if (!*list && !new_slab(state, size)) return NULL;
  }
  return take_from(list);
}

// Blocks at fixed addresses, for seed.c.

#define SLOT ((size_t)16384)
#define SLOTS 512
_Static_assert(CL_SLOT + 64 <= SLOT, "the used part begins after 64 bytes");

void *cl_map_at(uintptr_t address, size_t size) {
  if (!HAS_FIXED_ADDRESSES) return NULL;
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void *block = mmap((void *)address, size, PROT_READ | PROT_WRITE, how, -1, 0);
  if (block == MAP_FAILED) return NULL;
  if ((uintptr_t)block == address) return block;
  munmap(block, size);  // an old kernel treats the address as a hint
  return NULL;
}

void *cl_take_slot(void) {
  void *slot = NULL;
  for (size_t i = 0; i < SLOTS && !slot; i++) slot = cl_map_at(CL_SLOTS_BEGIN + i * SLOT, SLOT);
  // Do not begin a slot at the start of a page: the allocator would look for a slab's mark there.
  return slot ? (char *)slot + 64 : NULL;
}

void cl_free_slot(void *block) { munmap((void *)((uintptr_t)block & ~(SLOT - 1)), SLOT); }

static int is_in_slot(const void *block) { return (uintptr_t)block - CL_SLOTS_BEGIN < SLOT * SLOTS; }

static void give_back(cl_state *state, void *block) {
  cl_slab *s = slab_of(state, block);
  if (!s) return is_in_slot(block) ? cl_free_slot(block) : free(block);
  if (!state->main) return;  // the state is being closed, which frees all slabs at once
  int was_full = !has_room(s);
  *(void **)block = s->free;
  s->free = block;
  s->used--;
  if (was_full) LINK(list_of(state, s->size), s);
  // Keep the last slab with room, since the next block may be needed at once.
  else if (s->used == 0 && (s->next || s->previous)) free_slab(state, s);
}

static void *resize(cl_state *state, void *block, size_t size) {
  const cl_slab *s = slab_of(state, block);
  if (!s && (!POOLS || size > LARGEST)) return realloc(block, size);
  if (s && size <= s->size && size + STEP > s->size) return block;
  void *other = take(state, size);
  if (!other) return NULL;
  size_t held = s ? s->size : malloc_usable_size(block);
  memcpy(other, block, held < size ? held : size);
  give_back(state, block);
  return other;
}

static void take_back(cl_state *state) {
  void *block = __atomic_exchange_n(&state->returned, NULL, __ATOMIC_ACQUIRE);
  while (block) {
    void *next = *(void **)block;
    give_back(state, block);
    block = next;
  }
}

// C modules may call a state's allocator in their own threads; Lanes makes whole states with it. Such a thread gets
// blocks from malloc. If it frees a block of a slab, it puts the block into a list, from which the owner takes it back.
// These blocks are not counted, since the counts belong to the owner's thread.
__attribute__((noinline)) static void *allocate_elsewhere(cl_state *state, void *old, size_t new_size) {
  const cl_slab *s = old ? slab_of(state, old) : NULL;
  if (!s) {
    if (new_size > 0) return realloc(old, new_size);
    free(old);
    return NULL;
  }
  void *block = NULL;
  if (new_size > 0) {
    if (!(block = malloc(new_size))) return NULL;
    memcpy(block, old, s->size < new_size ? s->size : new_size);
  }
  void *first = __atomic_load_n(&state->returned, __ATOMIC_RELAXED);
  do *(void **)old = first;
  while (!__atomic_compare_exchange_n(&state->returned, &first, old, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
  return block;
}

// Atomic, because states with a common limit read it.
static void set_bytes(cl_state *state, size_t bytes) { __atomic_store_n(&state->bytes, bytes, __ATOMIC_RELAXED); }

// RLHOST_MALLOC=1 selects this allocator, for valgrind or to rule out an error in the slabs.
void *cl_allocate_plainly(void *data, void *old, size_t old_size, size_t new_size) {
  cl_state *state = data;
  if (state->thread == cl_this_thread()) {
    size_t bytes = state->bytes + new_size - (old ? old_size : 0);
    if (bytes > state->bytes_mark && bytes > state->bytes && !state->pass_mark(state, bytes)) return NULL;
    set_bytes(state, bytes);
  }
  if (new_size > 0) return realloc(old, new_size);
  free(old);
  return NULL;
}

// Whether Lua's memory may grow to this number of bytes.
static int may_grow(cl_state *state, size_t bytes) {
  uint64_t number = ++state->allocations;
  if (state->fail_at && (number == state->fail_at || (state->fail_on && number > state->fail_at))) return 0;
  return bytes <= state->bytes_mark || state->pass_mark(state, bytes);
}

// The allocator runs some thousand times in a start. Each rare case is a separate function, so that the usual cases
// save and restore no registers for it.
#define APART __attribute__((noinline))

APART static void *allocate_new(cl_state *state, size_t size) {
  size_t bytes = state->bytes + size;
  if (!may_grow(state, bytes)) return NULL;
  void *block = take(state, size);
  if (!block) return NULL;
  set_bytes(state, bytes);
  state->blocks++;
  return block;
}

APART static void *allocate_again(cl_state *state, void *old, size_t old_size, size_t new_size) {
  size_t bytes = state->bytes + new_size - old_size;
  // Shrinking never fails, as Lua requires.
  if (new_size > old_size && !may_grow(state, bytes)) return NULL;
  void *block = resize(state, old, new_size);
  if (block) set_bytes(state, bytes);
  return block;
}

APART static void *free_old(cl_state *state, void *old, size_t old_size) {
  set_bytes(state, state->bytes - old_size);
  state->blocks--;
  give_back(state, old);
  return NULL;
}

void *cl_allocate(void *data, void *old, size_t old_size, size_t new_size) {
  cl_state *state = data;
  if (state->thread != cl_this_thread()) return allocate_elsewhere(state, old, new_size);
  if (new_size == 0) return old ? free_old(state, old, old_size) : NULL;
  if (old) return allocate_again(state, old, old_size, new_size);
  size_t bytes = state->bytes + new_size;
  cl_slab **list = list_of(state, new_size);
  if (!POOLS || new_size > LARGEST || !*list || state->fail_at || bytes > state->bytes_mark)
    return allocate_new(state, new_size);
  state->allocations++;
  set_bytes(state, bytes);
  state->blocks++;
  return take_from(list);
}

void cl_free_slabs(cl_state *state) {
  while (state->chunks) free_chunk(&state->chunks, state->chunks);
  while (state->full_chunks) free_chunk(&state->full_chunks, state->full_chunks);
  memset(state->slabs, 0, sizeof state->slabs);
}
