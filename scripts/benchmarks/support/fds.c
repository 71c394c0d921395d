// fds pipes|sockets N COMMAND…: runs the command with N pairs open as descriptors 3,4 5,6 …
// Node can make neither a pipe nor a socket pair; the other peers make their own.
#include "shared.h"

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: fds pipes|sockets N COMMAND...\n");
    return 64;
  }
  close_range(3, ~0u, 0);  // leaked descriptors would shift the numbers
  for (long n = atol(argv[2]); n > 0; n--) {
    int pair[2];
    int failed = strcmp(argv[1], "pipes") ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair);
    if (failed) die("fds");
  }
  execvp(argv[3], argv + 3);
  die("fds: exec");
}
