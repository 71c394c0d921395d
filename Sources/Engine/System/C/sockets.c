#define _GNU_SOURCE
#include "sockets.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

// A socket's path can have 107 bytes at most, but the path of its directory alone may be longer. So use the short path
// of the directory's descriptor in /proc.
static int address(struct sockaddr_un *a, int fd, const char *name) {
  memset(a, 0, sizeof *a);
  a->sun_family = AF_UNIX;
  int length = snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d%s%s", fd, *name ? "/" : "", name);
  if (length < (int)sizeof a->sun_path) return 0;
  errno = ENAMETOOLONG;
  return -1;
}

int linux_listen(int directory, const char *name, const char *temporary, linux_file_id *id) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct sockaddr_un a;
  struct stat status;
  unlinkat(directory, temporary, 0);
  // fchmod before `bind` makes the socket's file private. A strict umask would do the same, but it applies to all
  // threads.
  if (fchmod(fd, 0600) != 0 || address(&a, directory, temporary) != 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0)
    return linux_give_up(fd);
  // The socket's file gets its final name only after `listen`, so that no process can connect too early.
  if (listen(fd, 4096) != 0 || fstatat(directory, temporary, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      renameat(directory, temporary, directory, name) != 0) {
    int error = errno;
    unlinkat(directory, temporary, 0);
    errno = error;
    return linux_give_up(fd);
  }
  *id = (linux_file_id){.device = status.st_dev, .number = status.st_ino};
  return fd;
}

int linux_connect(int directory, const char *name) {
  int file = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return linux_give_up(file);
  struct sockaddr_un a;
  if (address(&a, file, "") != 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
    linux_give_up(fd);
    return linux_give_up(file);
  }
  close(file);
  return fd;
}

int linux_accept(int fd) { return accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

int linux_peer(int fd, uint32_t *user, int32_t *process) {
  struct ucred credentials;
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return -1;
  *user = credentials.uid;
  *process = credentials.pid;
  return 0;
}

int linux_send_datagram(const char *path, const void *bytes, size_t count) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = strlen(path);
  if (length == 0 || length >= sizeof address.sun_path) {
    errno = length ? ENAMETOOLONG : EINVAL;
    return -1;
  }
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = 0;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  ssize_t n;
  do n = sendto(fd, bytes, count, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
  while (n < 0 && errno == EINTR);
  linux_give_up(fd);
  return n < 0 ? -1 : 0;
}

int64_t linux_receive(int fd, void *bytes, size_t count) {
  ssize_t n;
  do n = recv(fd, bytes, count, MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  return n;
}

int64_t linux_send(int fd, const void *bytes, size_t count) {
  ssize_t n;
  do n = send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n;
}
