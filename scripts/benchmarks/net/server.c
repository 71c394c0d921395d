// The floor in C. server WORKLOAD PORT
#include "loop.h"
#include <stdio.h>

#define MOST 65536
static char *rest[MOST];
static long counts[MOST];
static int lengths[MOST];

// Sends each line back in a separate call, as a program that handles each line would.
static void lines(int fd, char *at, long left) {
  char *end;
  char out[65536];
  int length = 0;
  while ((end = memchr(at, '\n', left))) {
    int head = lengths[fd];
    if (head) memcpy(out + length, rest[fd], head);
    memcpy(out + length + head, at, end - at + 1);
    length += head + (int)(end - at) + 1;
    lengths[fd] = 0;
    left -= end - at + 1;
    at = end + 1;
  }
  if (length) write(fd, out, length);
  if (left && !rest[fd]) rest[fd] = malloc(4096);
  memcpy(rest[fd] + lengths[fd], at, left);
  lengths[fd] += (int)left;
}

static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello world";

static int answer(void *workload, int fd, long got) {
  if (fd >= MOST) return 1;
  if (!got) {
    if (!strcmp(workload, "sink")) dprintf(fd, "%ld\n", counts[fd]);
    counts[fd] = lengths[fd] = 0;
    return 1;
  }
  counts[fd] += got;
  switch (*(char *)workload) {
    case 'e': write(fd, bytes, got); break;
    case 'l': lines(fd, bytes, got); break;
    case 'a':
      write(fd, "hello\n", 6);
      counts[fd] = 0;
      return 1;
    case 'h':
      for (char *at = bytes; (at = memmem(at, bytes + got - at, "\r\n\r\n", 4)); at += 4)
        write(fd, ANSWER, sizeof ANSWER - 1);
  }
  return 0;
}

int main(int argc, char **argv) { return argc < 3 || serve(atoi(argv[2]), answer, argv[1]); }
