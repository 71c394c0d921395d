// The loop of floor.c: timers in a 4-ary heap, file descriptors in epoll, posts in two queues.
#pragma once

#include "shared.h"
#include <errno.h>
#include <lua.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

typedef struct loop loop;
typedef void (*callback)(loop *, uint32_t argument);

typedef struct {
  uint64_t interval;
  callback call;
  uint32_t heap_index, next_free;
} timer;
typedef struct {
  uint64_t deadline;
  uint32_t sequence, slot;
} entry;  // 16 bytes: four children share a cache line
typedef struct {
  callback call;
  uint32_t argument;
} post_entry;

struct loop {
  entry *heap;
  uint32_t heap_count;
  timer *timers;
  uint32_t capacity, slot_count, free_slot;  // free_slot is 1-based, 0 = none
  uint32_t sequence;
  callback *watchers;
  int fd_count;  // by file descriptor
  post_entry *posts[2];
  uint32_t post_count[2], post_capacity[2];
  int filling;
  int poller, wake_fd;
  atomic_int woken;
  callback on_wake;
  bool stopped;
  uint64_t now;  // read once per pass; delays count from it, as in libuv, so that equal delays make one wake-up
  lua_State *L;
};

static bool earlier(entry a, entry b) {
  return a.deadline < b.deadline || (a.deadline == b.deadline && (int32_t)(a.sequence - b.sequence) < 0);
}

static void place(loop *l, uint32_t i, entry e) {
  l->heap[i] = e;
  l->timers[e.slot].heap_index = i;
}

static void sift_up(loop *l, uint32_t i, entry e) {
  for (; i > 0; i = (i - 1) / 4) {
    if (!earlier(e, l->heap[(i - 1) / 4])) break;
    place(l, i, l->heap[(i - 1) / 4]);
  }
  place(l, i, e);
}

static void sift_down(loop *l, uint32_t i, entry e) {
  for (;;) {
    uint32_t child = i * 4 + 1, last = child + 4 < l->heap_count ? child + 4 : l->heap_count, best = child;
    if (child >= l->heap_count) break;
    for (uint32_t c = child + 1; c < last; c++)
      if (earlier(l->heap[c], l->heap[best])) best = c;
    if (!earlier(l->heap[best], e)) break;
    place(l, i, l->heap[best]);
    i = best;
  }
  place(l, i, e);
}

static void sift(loop *l, uint32_t i, entry e) {
  if (i > 0 && earlier(e, l->heap[(i - 1) / 4])) sift_up(l, i, e);
  else sift_down(l, i, e);
}

static uint32_t add_timer(loop *l, uint64_t deadline, uint64_t interval, callback call) {
  uint32_t slot = l->free_slot;
  if (slot) l->free_slot = l->timers[slot].next_free;
  else {
    slot = ++l->slot_count;
    if (slot >= l->capacity) {
      l->capacity = l->capacity ? l->capacity * 2 : 64;
      l->timers = realloc(l->timers, l->capacity * sizeof *l->timers);
      l->heap = realloc(l->heap, l->capacity * sizeof *l->heap);
    }
  }
  l->timers[slot].interval = interval;
  l->timers[slot].call = call;
  sift_up(l, l->heap_count++, (entry){deadline, l->sequence++, slot});
  return slot;
}

static void cancel_timer(loop *l, uint32_t slot) {
  uint32_t i = l->timers[slot].heap_index;
  entry last = l->heap[--l->heap_count];
  if (last.slot != slot) sift(l, i, last);
  l->timers[slot].next_free = l->free_slot;
  l->free_slot = slot;
}

static void move_timer(loop *l, uint32_t slot, uint64_t deadline) {
  sift(l, l->timers[slot].heap_index, (entry){deadline, l->sequence++, slot});
}

static void watch(loop *l, int fd, callback call) {
  if (fd >= l->fd_count) {
    int count = l->fd_count ? l->fd_count : 64;
    while (count <= fd) count *= 2;
    l->watchers = realloc(l->watchers, (size_t)count * sizeof *l->watchers);
    l->fd_count = count;
  }
  l->watchers[fd] = call;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  if (epoll_ctl(l->poller, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static void unwatch(loop *l, int fd) { epoll_ctl(l->poller, EPOLL_CTL_DEL, fd, NULL); }

static uint32_t post(loop *l, callback call, uint32_t argument) {
  int q = l->filling;
  if (l->post_count[q] == l->post_capacity[q]) {
    l->post_capacity[q] = l->post_capacity[q] ? l->post_capacity[q] * 2 : 64;
    l->posts[q] = realloc(l->posts[q], l->post_capacity[q] * sizeof **l->posts);
  }
  l->posts[q][l->post_count[q]] = (post_entry){call, argument};
  return l->post_count[q]++;
}

static void wake(loop *l) {  // from any thread
  uint64_t one = 1;
  if (!atomic_exchange(&l->woken, 1) && write(l->wake_fd, &one, sizeof one) < 0) die("wake");
}

static void woken(loop *l, uint32_t fd) {
  uint64_t count;
  if (read((int)fd, &count, sizeof count) < 0) return;
  atomic_store(&l->woken, 0);
  if (l->on_wake) l->on_wake(l, fd);
}

static loop *new_loop(void) {
  loop *l = calloc(1, sizeof *l);
  l->poller = epoll_create1(EPOLL_CLOEXEC);
  l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  watch(l, l->wake_fd, woken);
  l->now = now_ns();
  return l;
}

static int wait_for_events(int poller, struct epoll_event events[64], const struct timespec *limit) {
  int n = epoll_pwait2(poller, events, 64, limit, NULL);
  if (n >= 0 || errno != ENOSYS) return n;
  // Valgrind does not know the newer call.
  return epoll_wait(poller, events, 64, limit ? (int)(limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000) : -1);
}

static void run(loop *l) {
  // Without this setting, the kernel may deliberately be 50 microseconds late.
  prctl(PR_SET_TIMERSLACK, 1);
  l->stopped = false;
  while (!l->stopped) {
    l->now = now_ns();
    while (l->heap_count && l->heap[0].deadline <= l->now) {
      entry e = l->heap[0];
      timer *t = &l->timers[e.slot];
      callback call = t->call;
      if (t->interval) {
        do e.deadline += t->interval;
        while (e.deadline <= l->now);
        sift_down(l, 0, e);
      } else cancel_timer(l, e.slot);
      call(l, e.slot);
    }
    int q = l->filling;
    l->filling = !q;  // posts made by these run in the next pass
    for (uint32_t i = 0; i < l->post_count[q]; i++) l->posts[q][i].call(l, l->posts[q][i].argument);
    l->post_count[q] = 0;
    if (l->stopped) break;

    struct epoll_event events[64];
    struct timespec timeout = {0}, *limit = &timeout;
    if (l->post_count[l->filling])
      ;
    else if (l->heap_count) {
      uint64_t now = now_ns(), wait = l->heap[0].deadline > now ? l->heap[0].deadline - now : 0;
      timeout = (struct timespec){(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    } else limit = NULL;
    int n = wait_for_events(l->poller, events, limit);
    for (int i = 0; i < n; i++) l->watchers[events[i].data.fd](l, (uint32_t)events[i].data.fd);
  }
}

static void stop(loop *l) { l->stopped = true; }
