// Shared by the C programs and the Lua module `posix`: clocks, memory, loopback sockets, the report.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline double cpu_seconds(void) { return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9; }

// Anonymous memory in use. smaps_rollup walks the page tables; the counters of /proc/self/statm are
// per CPU and off by hundreds of kilobytes.
static inline long anonymous_bytes(void) {
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long kilobytes = 0;
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Anonymous: %ld", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes * 1024;
}

static inline void die(const char *what) {
  perror(what);
  exit(1);
}

static inline int listen_on_loopback(int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096)) return -1;
  getsockname(fd, (struct sockaddr *)&address, &length);
  *port = ntohs(address.sin_port);
  return fd;
}

static inline int accept_connection(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

// The same small generator everywhere in C: the workloads need spread, not quality.
static inline uint32_t random_below(uint32_t limit) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)state * limit) >> 32);
}

static double started_cpu;
static uint64_t started_at;
static inline void start_measuring(void) {
  started_at = now_ns();
  started_cpu = cpu_seconds();
}
static inline void report(long operations) {
  double cpu = cpu_seconds() - started_cpu;
  printf("{\"ops\": %ld, \"cpu\": %.9f, \"wall\": %.9f}\n", operations, cpu, (double)(now_ns() - started_at) * 1e-9);
}
static inline void report_memory(long objects, long before) {
  printf("{\"ops\": %ld, \"bytes\": %ld}\n", objects, anonymous_bytes() - before);
}

static inline int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static inline void report_lateness(double *seconds, long count) {
  qsort(seconds, (size_t)count, sizeof *seconds, compare_doubles);
  printf("{\"ops\": %ld, \"p99\": %.9f}\n", count, count ? seconds[(long)((double)count * 0.99)] : 0.0);
}
