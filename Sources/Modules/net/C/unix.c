#define _GNU_SOURCE
#include "CStreams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Whether somebody listens under the name. A negative error number: it cannot be told, and so it is not ours to replace. Asked by a
// socket of another type, which no listener accepts: it is not to hear of us.
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
  // What the file is made with, less what the umask takes away: never with more than it is to have. It is bound under its own name,
  // not renamed to it: the name that was bound is what peers see.
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
  // Two that find the same file stale must not replace each other's. The lock is the directory's, so that no file is left.
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
