#define _GNU_SOURCE
// The floor: epoll and nothing else. server WORKLOAD PORT
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 65536
static char bytes[65536], *rest[MOST];
static long counts[MOST];
static int lengths[MOST];

// Each line is sent back by itself, as a program would that looks at it.
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

int main(int argc, char **argv) {
  const char *workload = argv[1];
  int server = socket(AF_INET, SOCK_STREAM, 0), one = 1, epoll = epoll_create1(0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(server, (struct sockaddr *)&a, sizeof a) || listen(server, 4096)) return 1;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = server}, events[256];
  epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event);
  while (1) {
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == server) {
        int new = accept(server, NULL, NULL);
        if (new < 0 || new >= MOST) continue;
        setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        counts[new] = lengths[new] = 0;
        event = (struct epoll_event){.events = EPOLLIN, .data.fd = new};
        epoll_ctl(epoll, EPOLL_CTL_ADD, new, &event);
        continue;
      }
      long got = read(fd, bytes, sizeof bytes);
      if (got <= 0) {
        if (!strcmp(workload, "sink")) dprintf(fd, "%ld\n", counts[fd]);
        close(fd);
        continue;
      }
      counts[fd] += got;
      switch (workload[0]) {
        case 'e': write(fd, bytes, got); break;
        case 'l': lines(fd, bytes, got); break;
        case 'a':
          write(fd, "hello\n", 6);
          close(fd);
          break;
        case 'h':
          for (char *at = bytes; (at = memmem(at, bytes + got - at, "\r\n\r\n", 4)); at += 4) write(fd, ANSWER, sizeof ANSWER - 1);
      }
    }
  }
}
