// The metrics of a process, for the C files that change and show them.
#pragma once

#include <lua.h>
#include <pthread.h>
#include <stdint.h>

enum { MOST_SERIES = 1000, CHAINS = 256, SHORT_KEY = 512 };
enum { COUNTER, GAUGE, HISTOGRAM };

/// The numbers for one set of label values. The key consists of the label values, each preceded by its length.
typedef struct series {
  struct series *next, *later;  // the next in its chain, and in the order of making
  double value;                 // a histogram's sum
  uint64_t *counts;             // for a histogram, by bucket; the last bucket has no limit
  size_t length;
  char key[];
} series;

typedef struct metric {
  char *name, *help, *site, **labels;
  double *buckets;
  int kind, label_count, bucket_count, series_count;
  int is_asked;  // a function of the state `owner` returns the number, while that state lives
  const void *owner;
  int64_t put_at;  // when the function last returned a number; 0 if never
  int is_hidden;   // true between two tests: no page shows it until a test names or uses it
  int has_warned;
  uint64_t dropped;
  series *chains[CHAINS], *first, **last;
  pthread_mutex_t lock;  // guards all fields that change
} metric;

struct metrics_list {
  pthread_mutex_t lock;
  metric **metrics;  // in the order of the page
  size_t count, room;
};
extern struct metrics_list metrics_all;

/// The names of the kinds.
extern const char *const metrics_kinds[];

#define METRICS_PAGE "runloop.metrics.page"

/// text(since) -> the part of the page that scripts have made. The number of a function is shown if it is not older
/// than `since`, or if the function's state has ended. The second upvalue is the metatable METRICS_PAGE, whose __gc is
/// metrics_free_page.
int metrics_text(lua_State *L);
int metrics_free_page(lua_State *L);
/// number(n) -> the shortest text that reads back the same
int metrics_show_number(lua_State *L);
/// process() -> seconds of the processor, bytes in memory, descriptors, their limit, seconds since 1970 at the start
int metrics_process(lua_State *L);
