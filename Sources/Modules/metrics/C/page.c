// The page of a process's metrics, in Prometheus' text format, and the numbers of the process itself.
#include <lauxlib.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../encoding/C/codecs.h"
#include "CLinux.h"
#include "metrics.h"

const char *const metrics_kinds[] = {"counter", "gauge", "histogram"};

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Reads the number after `skip` blanks in a file below /proc. Counts the blanks from the last ')' if the file has one.
// Returns 0 if the number is unknown.
static double read_number(const char *path, int skip) {
  char bytes[1024];
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  size_t length = fread(bytes, 1, sizeof bytes - 1, file);
  fclose(file);
  bytes[length] = 0;
  const char *at = strrchr(bytes, ')');
  for (at = at ? at + 1 : bytes; skip && at; skip--) {
    at = strchr(at, ' ');
    if (at) at++;
  }
  return at ? strtod(at, NULL) : 0;
}

double metrics_age(void) {
  // The time at which the process started, in ticks after the start of the system. The number is kept, since there may
  // be no free descriptor to read it later.
  static _Atomic double start;
  double ticks = atomic_load_explicit(&start, memory_order_relaxed);
  if (ticks == 0) atomic_store_explicit(&start, ticks = read_number("/proc/self/stat", 20), memory_order_relaxed);
  // If a sandbox hides the file, use the time at which the process entered the sandbox: soon after its start.
  return seconds_of(CLOCK_BOOTTIME) - (ticks > 0 ? ticks / (double)sysconf(_SC_CLK_TCK) : linux_sandboxed_at());
}

double metrics_resident(void) {
  double pages = read_number("/proc/self/statm", 1);
  if (pages > 0) return pages * (double)sysconf(_SC_PAGESIZE);
  // If no descriptor is left for the file, use the largest size until now, in kilobytes.
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss * 1024;
}

int metrics_connections(void) {
  int *all, open = linux_list_descriptors(&all), count = 0;
  struct sockaddr_storage peer;
  for (int i = 0; i < open; i++) {
    socklen_t length = sizeof peer;
    count += getpeername(all[i], (struct sockaddr *)&peer, &length) == 0;
  }
  free(all);
  return count;
}

int metrics_process(lua_State *L) {
  struct rlimit limit = {0};
  getrlimit(RLIMIT_NOFILE, &limit);
  int *all, open = linux_list_descriptors(&all);
  free(all);
  double age = metrics_age();
  lua_pushnumber(L, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
  lua_pushnumber(L, metrics_resident());
  lua_pushnumber(L, open);
  lua_pushnumber(L, limit.rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit.rlim_cur);
  lua_pushnumber(L, floor((seconds_of(CLOCK_REALTIME) - age) * 100 + 0.5) / 100);
  return 5;
}

// The page ------------------------------------------------------------------------------------------------------------

typedef struct page {
  char *bytes;
  size_t length, room;
  int has_failed;
} page;

int metrics_free_page(lua_State *L) {
  page *p = luaL_checkudata(L, 1, METRICS_PAGE);
  free(p->bytes);
  p->bytes = NULL;
  return 0;
}

static void write_bytes(page *p, const char *bytes, size_t length) {
  if (p->has_failed) return;
  if (p->room - p->length < length) {
    size_t room = (p->length + length) * 2 + 4096;
    char *grown = realloc(p->bytes, room);
    if (!grown) {
      p->has_failed = 1;
      return;
    }
    p->bytes = grown, p->room = room;
  }
  memcpy(p->bytes + p->length, bytes, length);
  p->length += length;
}
static void write_text(page *p, const char *text) { write_bytes(p, text, strlen(text)); }

// Returns the length of the UTF-8 character that begins here; 0 for other bytes.
static size_t character(const unsigned char *at, size_t left) {
  size_t length = *at < 0x80 ? 1 : *at >= 0xf0 && *at < 0xf5 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc2 ? 2 : 0;
  if (*at >= 0xf5 || !length || length > left) return 0;
  for (size_t i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) || (*at == 0xf0 && at[1] < 0x90) ||
      (*at == 0xf4 && at[1] > 0x8f))
    return 0;
  return length;
}

// Readers refuse a page whose bytes are not UTF-8, so that other bytes become U+FFFD.
static void write_escaped(page *p, const char *text, size_t length, int is_value) {
  for (size_t i = 0; i < length;) {
    size_t size = character((const unsigned char *)text + i, length - i);
    char c = text[i];
    if (!size) write_text(p, "\xef\xbf\xbd"), size = 1;
    else if (c == '\\') write_text(p, "\\\\");
    else if (c == '\n') write_text(p, "\\n");
    else if (c == '"' && is_value) write_text(p, "\\\"");
    else write_bytes(p, text + i, size);
    i += size;
  }
}

// Writes the shortest text that reads back the same.
static size_t number_text(double number, char text[40]) {
  if (isnan(number)) return (size_t)sprintf(text, "NaN");
  if (isinf(number)) return (size_t)sprintf(text, number > 0 ? "+Inf" : "-Inf");
  if (fabs(number) < 9007199254740992.0 && number == (double)(int64_t)number)
    return (size_t)sprintf(text, "%lld", (long long)number);
  for (int digits = 15;; digits++) {
    int length = snprintf(text, 40, "%.*g", digits, number);
    if (digits == 17 || strtod(text, NULL) == number) return (size_t)length;
  }
}

static void write_number(page *p, double number) {
  char text[40];
  write_bytes(p, text, number_text(number, text));
}

// Writes a line; `limit` is the limit of a histogram's bucket, or NULL.
static void write_line(page *p, const metric *m, const char *suffix, const series *s, const char *limit, double value) {
  write_text(p, m->name);
  write_text(p, suffix);
  const char *at = s->key, *separator = "{";
  for (int i = 0; i < m->label_count; i++, separator = ",") {
    uint32_t length;
    memcpy(&length, at, sizeof length);
    write_text(p, separator);
    write_text(p, m->labels[i]);
    write_text(p, "=\"");
    write_escaped(p, at + sizeof length, length, 1);
    write_text(p, "\"");
    at += sizeof length + length;
  }
  if (limit) write_text(p, separator), write_text(p, "le=\""), write_text(p, limit), write_text(p, "\"");
  write_text(p, m->label_count || limit ? "} " : " ");
  write_number(p, value);
  write_text(p, "\n");
}

static void write_head(page *p, const char *name, const char *help, const char *kind) {
  write_text(p, "# HELP ");
  write_text(p, name);
  write_text(p, " ");
  write_escaped(p, help, strlen(help), 0);
  write_text(p, "\n# TYPE ");
  write_text(p, name);
  write_text(p, " ");
  write_text(p, kind);
  write_text(p, "\n");
}

static void write_series(page *p, const metric *m, const series *s) {
  if (m->kind != HISTOGRAM) return write_line(p, m, "", s, NULL, s->value);
  uint64_t sum = 0;
  for (int i = 0; i <= m->bucket_count; i++) {
    char limit[40];
    limit[number_text(i < m->bucket_count ? m->buckets[i] : INFINITY, limit)] = 0;
    sum += s->counts[i];
    write_line(p, m, "_bucket", s, limit, (double)sum);
  }
  write_line(p, m, "_sum", s, NULL, s->value);
  write_line(p, m, "_count", s, NULL, (double)sum);
}

int metrics_text(lua_State *L) {
  int64_t since = lua_tointeger(L, 1);
  page *p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = (page){0};
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  int drops = 0;
  pthread_mutex_lock(&metrics_all.lock);
  for (size_t i = 0; i < metrics_all.count; i++) {
    metric *m = metrics_all.metrics[i];
    if (m->is_hidden) continue;
    pthread_mutex_lock(&m->lock);
    drops |= m->dropped != 0;
    if (!m->is_asked || (m->put_at && (m->put_at >= since || !m->owner))) {
      write_head(p, m->name, m->help, metrics_kinds[m->kind]);
      for (series *s = m->first; s; s = s->later) write_series(p, m, s);
    }
    pthread_mutex_unlock(&m->lock);
  }
  if (drops) {
    write_head(p, "rlhost_metrics_dropped_total", "Changes of series beyond 1,000.", "counter");
    for (size_t i = 0; i < metrics_all.count; i++) {
      metric *m = metrics_all.metrics[i];
      if (m->is_hidden || !m->dropped) continue;
      write_text(p, "rlhost_metrics_dropped_total{metric=\"");
      write_text(p, m->name);
      write_text(p, "\"} ");
      write_number(p, (double)m->dropped);
      write_text(p, "\n");
    }
  }
  pthread_mutex_unlock(&metrics_all.lock);
  if (p->has_failed) return luaL_error(L, "not enough memory");
  lua_pushlstring(L, p->bytes ? p->bytes : "", p->length);
  free(p->bytes);
  *p = (page){0};
  return 1;
}

int metrics_show_number(lua_State *L) {
  char text[40];
  lua_pushlstring(L, text, number_text(lua_tonumber(L, 1), text));
  return 1;
}
