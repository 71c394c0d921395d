#define _GNU_SOURCE
#include "CStreams.h"

#include <CLinux.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER(call) ((call) < 0 ? -errno : 0)

// Calls again if a signal has interrupted the call.
#define RETRY(type, call)          \
  type n;                          \
  do n = (call);                   \
  while (n < 0 && errno == EINTR); \
  return n < 0 ? -(type)errno : n

int net_socket(int family, int type) {
  static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX};
  int fd = socket(families[family], type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
}

int net_pair(int fds[2]) { return ANSWER(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds)); }
int net_connect(int fd, const net_address *a) { return ANSWER(connect(fd, &a->of.any, a->length)); }
int net_bind(int fd, const net_address *a) { return ANSWER(bind(fd, &a->of.any, a->length)); }
int net_listen(int fd, int backlog) { return ANSWER(listen(fd, backlog)); }

int net_accept(int fd, net_address *peer) {
  peer->length = sizeof peer->of;
  int new = accept4(fd, &peer->of.any, &peer->length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return new < 0 ? -errno : new;
}

int net_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? -errno : -error;
}

int net_local_address(int fd, net_address *a) {
  a->length = sizeof a->of;
  return ANSWER(getsockname(fd, &a->of.any, &a->length));
}

int net_peer_address(int fd, net_address *a) {
  a->length = sizeof a->of;
  return ANSWER(getpeername(fd, &a->of.any, &a->length));
}

int net_is_write_only(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY;
}

// A child that a C module has forked shares its parent's connections: it must not end them.
int net_shutdown_output(int fd) { return linux_has_forked() ? 0 : ANSWER(shutdown(fd, SHUT_WR)); }

int64_t net_receive(int fd, void *bytes, size_t count) { RETRY(int64_t, recv(fd, bytes, count, MSG_DONTWAIT)); }

int64_t net_send(int fd, const struct iovec *pieces, int count) {
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
  RETRY(int64_t, sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int64_t net_read(int fd, void *bytes, size_t count) { RETRY(int64_t, read(fd, bytes, count)); }
int64_t net_write(int fd, const void *bytes, size_t count) { RETRY(int64_t, write(fd, bytes, count)); }

int net_is_ready(int fd, int for_writing) {
  struct pollfd p = {.fd = fd, .events = for_writing ? POLLOUT : POLLIN};
  return poll(&p, 1, 0) > 0;
}

int64_t net_read_polled(int fd, void *bytes, size_t count) {
  return net_is_ready(fd, 0) ? net_read(fd, bytes, count) : -EAGAIN;
}

int64_t net_write_polled(int fd, const void *bytes, size_t count) {
  // A pipe that is ready takes 4,096 bytes without blocking.
  return net_is_ready(fd, 1) ? net_write(fd, bytes, count > 4096 ? 4096 : count) : -EAGAIN;
}

int64_t net_receive_from(int fd, void *bytes, size_t count, net_address *from) {
  from->length = sizeof from->of;
  RETRY(int64_t, recvfrom(fd, bytes, count, MSG_DONTWAIT | MSG_TRUNC, &from->of.any, &from->length));
}

int64_t net_next_size(int fd) {
  int size = 0;
  return ioctl(fd, FIONREAD, &size) == 0 ? size : 0;
}

int64_t net_send_to(int fd, const void *bytes, size_t count, const net_address *to) {
  RETRY(int64_t, sendto(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL, to ? &to->of.any : NULL, to ? to->length : 0));
}

int64_t net_send_file(int to, int file, size_t count) { RETRY(int64_t, sendfile(to, file, NULL, count)); }

int64_t net_splice(int from, int to, size_t count) {
  RETRY(int64_t, splice(from, NULL, to, NULL, count, SPLICE_F_NONBLOCK | SPLICE_F_MOVE));
}

int net_pipe(int fds[2]) { return ANSWER(pipe2(fds, O_NONBLOCK | O_CLOEXEC)); }

static int set(int fd, int level, int option, int value) {
  return ANSWER(setsockopt(fd, level, option, &value, sizeof value));
}

int net_set_no_delay(int fd, int on) { return set(fd, IPPROTO_TCP, TCP_NODELAY, on); }

int net_set_keep_alive(int fd, int on, int idle, int interval, int count) {
  int failure = set(fd, SOL_SOCKET, SO_KEEPALIVE, on);
  if (!failure && on && idle) failure = set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  if (!failure && on && interval) failure = set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  if (!failure && on && count) failure = set(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
  return failure;
}

int net_set_user_timeout(int fd, int milliseconds) { return set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds); }

int net_set_reuse_address(int fd) { return set(fd, SOL_SOCKET, SO_REUSEADDR, 1); }
int net_set_reuse_port(int fd) { return set(fd, SOL_SOCKET, SO_REUSEPORT, 1); }
int net_set_v6_only(int fd, int on) { return set(fd, IPPROTO_IPV6, IPV6_V6ONLY, on); }
int net_set_broadcast(int fd, int on) { return set(fd, SOL_SOCKET, SO_BROADCAST, on); }

int net_takes_mapped(int fd) {
  int is_only = 1;
  socklen_t length = sizeof is_only;
  net_address own;
  if (getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_only, &length) < 0 || is_only || net_local_address(fd, &own) < 0)
    return 0;
  const struct in6_addr *address = &own.of.v6.sin6_addr;
  return own.of.any.sa_family == AF_INET6 && (IN6_IS_ADDR_UNSPECIFIED(address) || IN6_IS_ADDR_V4MAPPED(address));
}

int net_set_reset(int fd) {
  if (linux_has_forked()) return 0;
  struct linger linger = {.l_onoff = 1, .l_linger = 0};
  return ANSWER(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

int net_unacknowledged(int fd) {
  int count = 0;
  return ioctl(fd, SIOCOUTQ, &count) == 0 ? count : -1;
}

int net_credentials(int fd, int32_t *process, uint32_t *user, uint32_t *group) {
  struct ucred who;
  socklen_t length = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0) return -errno;
  *process = who.pid;
  *user = who.uid;
  *group = who.gid;
  return 0;
}

int net_kind_of(int fd, int *is_nonblocking) {
  struct stat status;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &status) < 0) return -errno;
  *is_nonblocking = (flags & O_NONBLOCK) != 0;
  if (S_ISREG(status.st_mode)) return NET_FILE;
  if (S_ISFIFO(status.st_mode)) return NET_PIPE;
  if (S_ISCHR(status.st_mode)) return isatty(fd) ? NET_TERMINAL : NET_DEVICE;
  if (!S_ISSOCK(status.st_mode)) return NET_NONE;
  int type = 0;
  socklen_t length = sizeof type;
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
  return type == SOCK_STREAM ? NET_STREAM_SOCKET : NET_DATAGRAM_SOCKET;
}

void net_make_blocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && flags & O_NONBLOCK) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

int net_is_listening(int fd) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value;
}

int net_duplicate(int fd) {
  int new = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return new < 0 ? -errno : new;
}

int net_event(void) {
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd < 0 ? -errno : fd;
}

const void *net_find(const void *bytes, size_t count, const void *text, size_t length) {
  return memmem(bytes, count, text, length);
}

int net_close(int fd) { return ANSWER(close(fd)); }
int net_unlink(const char *path) { return ANSWER(unlink(path)); }

long net_descriptor_limit(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (long)limit.rlim_cur : -1;
}

int net_socket_file(const char *path, uint64_t *device, uint64_t *number) {
  struct stat status;
  if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode)) return 0;
  *device = status.st_dev;
  *number = status.st_ino;
  return 1;
}

int net_inherit(int fd) {
  int value = 0;
  socklen_t size = sizeof value;
  int flags = fcntl(fd, F_GETFD);
  if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0) return -errno;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) < 0) return NET_NO_SOCKET;
  if (value == SOCK_DGRAM) return NET_DATAGRAM;
  int listens = 0;
  size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens) return NET_LISTENER;
  return NET_STREAM;
}

int net_share(int fd) {
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  if (copy < 0) return -errno;
  int flags = fcntl(copy, F_GETFL);
  if (flags >= 0 && fcntl(copy, F_SETFL, flags | O_NONBLOCK) == 0) return copy;
  linux_give_up(copy);
  return -errno;
}
