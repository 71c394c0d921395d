// start TIMES COMMAND…: runs the command TIMES times and reports its cost. This is a separate program, since the
// peak memory of a child includes that of the process that spawned it, and Python is large.
#include "shared.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: start TIMES COMMAND...\n");
    return 64;
  }
  long times = atol(argv[1]), resident = 0;
  double cpu = 0;
  uint64_t began = now_ns();
  for (long i = 0; i < times; i++) {
    pid_t child;
    int status;
    struct rusage usage;
    if (posix_spawnp(&child, argv[2], NULL, NULL, argv + 2, environ)) die("start");
    if (wait4(child, &status, 0, &usage) < 0 || status) {
      fprintf(stderr, "%s: status %d\n", argv[2], status);
      return 1;
    }
    cpu += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (usage.ru_maxrss > resident) resident = usage.ru_maxrss;
  }
  printf("{\"ops\": %ld, \"cpu\": %.9f, \"wall\": %.9f, \"resident\": %ld}\n", times, cpu,
         (double)(now_ns() - began) * 1e-9, resident * 1024);
}
