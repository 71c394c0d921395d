#define _GNU_SOURCE
#include "CStreams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Returns whether a process listens at the path, or a negative error number if that cannot be found out; then the file
// must not be replaced. The test connects a datagram socket, which reaches no listener: the server does not notice it.
static int is_live(const net_address *address) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  int result = connect(fd, &address->of.any, address->length) == 0 || errno == EAGAIN || errno == EPROTOTYPE ? 1
               : errno == ECONNREFUSED || errno == ENOENT                                                    ? 0
                                                                                                             : -errno;
  close(fd);
  return result;
}

static int bind_there(int fd, const net_address *address, const char *path, uint32_t mode, int backlog) {
  // The file is created with this mode, reduced by the umask; at no time does it have more permissions. The socket is
  // bound at its final path, since peers see the path of `bind` even after a rename.
  fchmod(fd, mode);
  if (bind(fd, &address->of.any, address->length) != 0) return -errno;
  if (fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) == 0 && listen(fd, backlog) == 0) return 0;
  int error = errno;
  unlink(path);
  return -error;
}

int net_listen_at_path(int fd, const net_address *address, uint32_t mode, int backlog) {
  char path[sizeof address->of.local.sun_path + 1], directory[sizeof path];
  net_path(address, path, sizeof path);
  strcpy(directory, path);
  char *end = strrchr(directory, '/');
  if (end) end[end == directory ? 1 : 0] = 0;
  // If two processes find the same stale file, the lock keeps each of them from replacing the other's new file. Locking
  // the directory leaves no file.
  int lock = open(end ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0) flock(lock, LOCK_EX);
  struct stat status;
  int result;
  if (lstat(path, &status) != 0) {
    result = bind_there(fd, address, path, mode, backlog);
  } else if (!S_ISSOCK(status.st_mode)) {
    result = -EADDRINUSE;
  } else {
    int live = is_live(address);
    result = live < 0 ? live : live ? -EADDRINUSE : 0;
    if (result == 0 && unlink(path) != 0 && errno != ENOENT) result = -errno;
    if (result == 0) result = bind_there(fd, address, path, mode, backlog);
  }
  if (lock >= 0) close(lock);
  return result;
}
