// The load for the echo workload: load PORT CONNECTIONS REQUESTS. Each connection has one 64-byte message in flight, so
// at most CONNECTIONS messages are in flight at once. Messages never leave loopback. Each connection first sends one
// message that is not counted, so that a server starts its clock with every connection accepted.
#include "shared.h"
#include <sys/epoll.h>

enum { message_size = 64 };
static char message[message_size];

static void send_message(int fd) {
  if (write(fd, message, message_size) != message_size) die("load: write");
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: load PORT CONNECTIONS REQUESTS\n");
    return 64;
  }
  int connections = atoi(argv[2]);
  long to_send = atol(argv[3]), to_receive = connections + to_send;
  int poller = epoll_create1(EPOLL_CLOEXEC);
  int *fds = calloc((size_t)connections, sizeof *fds), *received = calloc((size_t)connections, sizeof *received);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (int i = 0; i < connections; i++) {
    int one = 1;
    fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fds[i], (struct sockaddr *)&address, sizeof address)) die("load: connect");
    setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    epoll_ctl(poller, EPOLL_CTL_ADD, fds[i], &event);
  }
  // In the first round, the server answers on every connection before the counted requests begin.
  for (int i = 0; i < connections; i++) send_message(fds[i]);
  for (int i = 0; i < connections; i++) {
    ssize_t n = recv(fds[i], message, message_size, MSG_WAITALL);
    if (n != message_size) die("load: first answer");
  }
  to_receive -= connections;
  for (int i = 0; i < connections && to_send > 0; i++, to_send--) send_message(fds[i]);

  struct epoll_event events[64];
  while (to_receive > 0) {
    int n = epoll_wait(poller, events, 64, 20000);
    if (n <= 0) die("load: no answer");
    for (int i = 0; i < n; i++) {
      uint32_t c = events[i].data.u32;
      ssize_t got = read(fds[c], message, (size_t)(message_size - received[c]));
      if (got < 0) die("load: read");
      // A server that has sent its last answer may close while this program still has answers to read.
      if (got == 0) {
        epoll_ctl(poller, EPOLL_CTL_DEL, fds[c], NULL);
        continue;
      }
      received[c] += (int)got;
      if (received[c] < message_size) continue;
      received[c] = 0;
      to_receive--;
      if (to_send > 0) {
        to_send--;
        send_message(fds[c]);
      }
    }
  }
  return 0;
}
