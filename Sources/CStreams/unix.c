#define _GNU_SOURCE
#include "CStreams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Whether somebody listens under the name. A negative error number: it cannot be told, and so it is not ours to replace.
static int is_live(const net_address *address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  int result = connect(fd, &address->of.any, address->length) == 0 || errno == EAGAIN || errno == EINPROGRESS ? 1
               : errno == ECONNREFUSED || errno == ENOENT                                                    ? 0
                                                                                                             : -errno;
  close(fd);
  return result;
}

static int bind_there(int fd, const net_address *address, const char *path, uint32_t mode, int backlog) {
  // Nobody finds it under its name before it listens, and with the mode that it is to have.
  char temporary[120];
  net_address hidden;
  const char *name = strrchr(path, '/');
  int directory = name ? (int)(name - path) + 1 : 0;
  int length = snprintf(temporary, sizeof temporary, "%.*s.%d-%d", directory, path, (int)getpid(), fd);
  // Too long a path for that: it is there, if only for a moment, with the mode of the umask.
  int is_hidden = net_local(temporary, (size_t)length, 0, &hidden);
  if (is_hidden) unlink(temporary);
  if (bind(fd, is_hidden ? &hidden.of.any : &address->of.any, is_hidden ? hidden.length : address->length) != 0) return -errno;
  const char *made = is_hidden ? temporary : path;
  if (chmod(made, mode) == 0 && listen(fd, backlog) == 0 && (!is_hidden || rename(temporary, path) == 0)) return 0;
  int error = errno;
  unlink(made);
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
    // Replaced in one step, by renaming; where that is not possible, in two.
    if (result == 0) {
      result = bind_there(fd, address, path, mode, backlog);
      if (result == -EADDRINUSE && unlink(path) == 0) result = bind_there(fd, address, path, mode, backlog);
    }
  }
  if (lock >= 0) close(lock);
  return result;
}
