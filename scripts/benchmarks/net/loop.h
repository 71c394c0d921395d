// The loop of both floors: epoll, accept, read, and nothing else. It calls `answer` with the bytes of each read, none
// at the end of input, and closes the connection if `answer` returns nonzero.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[65536];

static int serve(int port, int (*answer)(void *context, int fd, long length), void *context) {
  int server = socket(AF_INET, SOCK_STREAM, 0), one = 1, epoll = epoll_create1(0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(server, (struct sockaddr *)&a, sizeof a) || listen(server, 4096)) return 1;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = server}, events[256];
  epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event);
  while (1) {
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == server) {
        int new = accept(server, NULL, NULL);
        if (new < 0) continue;
        setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event = (struct epoll_event){.events = EPOLLIN, .data.fd = new};
        epoll_ctl(epoll, EPOLL_CTL_ADD, new, &event);
        continue;
      }
      long got = read(fd, bytes, sizeof bytes);
      if (answer(context, fd, got > 0 ? got : 0) || got <= 0) close(fd);
    }
  }
}
