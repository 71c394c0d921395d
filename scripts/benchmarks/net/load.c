// The clients of the network's benchmarks: load WORKLOAD PORT CONNECTIONS TOTAL SIZE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int port;

static int open_one(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
    perror("connect");
    exit(1);
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static char buffer[1 << 20], incoming[1 << 20];

// Each connection has one message under way, and sends the next when the answer has come.
static void echo(int count, long total, int size) {
  int epoll = epoll_create1(0), *got = calloc(65536, sizeof *got);
  long sent = 0, done = 0;
  for (int i = 0; i < count; i++) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = open_one()};
    epoll_ctl(epoll, EPOLL_CTL_ADD, e.data.fd, &e);
    if (sent++ < total && write(e.data.fd, buffer, size) < 0) exit(1);
  }
  struct epoll_event events[256];
  while (done < total) {
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      ssize_t r = read(fd, incoming, sizeof incoming);
      if (r <= 0) {
        fprintf(stderr, "a connection ended\n");
        exit(1);
      }
      for (got[fd] += r; got[fd] >= size; got[fd] -= size, done++)
        if (sent++ < total && write(fd, buffer, size) < 0) exit(1);
    }
  }
}

// The writer's connection sends data to all other connections. These read the data; only `slow` never reads.
static void chat(int count, long total, int size) {
  int epoll = epoll_create1(0), writer = open_one(), slow = open_one();
  for (int i = 0; i < count; i++) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = open_one()};
    epoll_ctl(epoll, EPOLL_CTL_ADD, e.data.fd, &e);
  }
  usleep(500000);
  struct epoll_event events[256];
  long got = 0, wanted = 0;
  for (long i = 0; i < total; i++) {
    if (write(writer, buffer, size) < 0) exit(1);
    wanted += (long)count * size;
    while (wanted - got > 4L * count * size || (i + 1 == total && got < wanted)) {
      int n = epoll_wait(epoll, events, 256, -1);
      for (int k = 0; k < n; k++) {
        ssize_t r = read(events[k].data.fd, incoming, sizeof incoming);
        if (r <= 0) exit(1);
        got += r;
      }
    }
  }
  close(slow);
}

int main(int argc, char **argv) {
  if (argc < 6) return 2;
  port = atoi(argv[2]);
  int count = atoi(argv[3]), size = atoi(argv[5]);
  long total = atol(argv[4]);
  memset(buffer, 'x', sizeof buffer);
  buffer[size - 1] = '\n';
  if (strcmp(argv[1], "sink") == 0) {
    int fd = open_one();
    for (long left = total; left > 0;) {
      ssize_t n = write(fd, buffer, left < size ? left : size);
      if (n <= 0) return 1;
      left -= n;
    }
    shutdown(fd, SHUT_WR);
    return read(fd, incoming, sizeof incoming) > 0 && atol(incoming) == total ? 0 : 1;
  }
  if (strcmp(argv[1], "answer") == 0) {
    for (long i = 0; i < total; i++) {
      int fd = open_one();
      if (write(fd, buffer, size) < 0 || read(fd, incoming, sizeof incoming) <= 0) return 1;
      while (read(fd, incoming, sizeof incoming) > 0) {}
      close(fd);
    }
    return 0;
  }
  if (strcmp(argv[1], "idle") == 0) {
    for (int i = 0; i < count; i++) open_one();
    puts("ready");
    fflush(stdout);
    pause();
  }
  if (strcmp(argv[1], "chat") == 0) chat(count, total, size);
  else echo(count, total, size);
}
