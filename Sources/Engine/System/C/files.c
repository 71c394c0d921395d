#define _GNU_SOURCE
#include "files.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "descriptors.h"

enum {
  MOST_NUMBERS = 10000,  // the number of names to try
  MOST_LINKS = 40,       // the limit of the kernel
  MOST_RACES = 16,       // how often another process may change the file between two system calls
};

// Makes a new file. All files that rlhost makes come from here.
static int make(int directory, const char *name, int flags, mode_t mode) {
  return openat(directory, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

int linux_make_file(int directory, const char *stem, const char *ending, mode_t mode, char **name) {
  for (int number = 1; number <= MOST_NUMBERS; number++) {
    int length = number == 1 ? asprintf(name, "%s%s", stem, ending) : asprintf(name, "%s-%d%s", stem, number, ending);
    if (length < 0) break;
    int fd = make(directory, *name, O_WRONLY, mode);
    if (fd >= 0) return fd;
    int error = errno;
    free(*name);
    errno = error;
    if (error != EEXIST) break;
  }
  *name = NULL;
  return -1;
}

int linux_open_own(int directory, const char *name, int flags) {
  for (int i = 0; i < MOST_RACES; i++) {
    int fd = openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = make(directory, name, flags | O_NONBLOCK, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

void linux_leave_place(linux_place *place) {
  if (place->directory >= 0) linux_give_up(place->directory);
  place->directory = -1;
}

// Opens the directory of a path, relative to the directory of `place`, and stores the last component as the name.
static int enter(linux_place *place, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!*path) errno = ENOENT;
  else if (!*name) errno = EISDIR;
  else if (strlen(name) >= sizeof place->name) errno = ENAMETOOLONG;
  else {
    char *way = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!way) return -1;
    int from = place->directory < 0 ? AT_FDCWD : place->directory;
    int directory = openat(from, way, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int error = errno;
    free(way);
    linux_leave_place(place);
    errno = error;
    if ((place->directory = directory) < 0) return -1;
    strcpy(place->name, name);
    return 0;
  }
  return -1;
}

// Returns whether the place is in /proc, where a link leads to an open file, and its text need not be a path.
static int holds_handles(int directory) {
  struct statfs system;
  return fstatfs(directory, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

static int look(linux_place *place, int flags) {
  struct stat status;
  if (fstatat(place->directory, place->name, &status, flags) != 0) return errno == ENOENT ? 0 : -1;
  place->exists = 1;
  place->mode = status.st_mode;
  place->owner = status.st_uid;
  place->group = status.st_gid;
  place->device = status.st_dev;
  place->number = status.st_ino;
  return 0;
}

static const linux_place nowhere = {.directory = -1, .stranger = -1, .is_ours = 1};

int linux_find_place(const char *path, linux_place *place) {
  *place = nowhere;
  char target[4096];
  for (int i = 0; i <= MOST_LINKS; i++) {
    place->exists = 0;
    if (enter(place, path) != 0 || look(place, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (!place->exists || !S_ISLNK(place->mode)) return 0;
    if (holds_handles(place->directory)) {
      place->is_handle = 1;
      return look(place, 0);
    }
    if (place->owner != geteuid()) {
      // The caller uses `stranger` if the file at the end of the path may not be replaced.
      place->stranger = place->owner;
      place->is_ours = 0;
      if (place->owner != 0) return errno = EACCES, -1;
    }
    ssize_t length = readlinkat(place->directory, place->name, target, sizeof target - 1);
    if (length < 0) return -1;
    target[length] = 0;
    path = target;
  }
  errno = ELOOP;
  return -1;
}

// Opens the file at a place if it is still the same file. Opening a pipe that no program reads would block the thread
// for ever: unless `waits` is set, it gives up after two seconds.
static int open_there(const linux_place *place, int flags, int waits) {
  enum { PAUSE = 5000, PAUSES = 400 };
  int is_limited = S_ISFIFO(place->mode) && !waits, fd;
  flags |= O_CLOEXEC | O_NOCTTY | (place->is_handle ? 0 : O_NOFOLLOW) | (is_limited ? O_NONBLOCK : 0);
  for (int i = 0; (fd = openat(place->directory, place->name, flags)) < 0; i++) {
    if (errno != ENXIO || !is_limited || i == PAUSES) return -1;
    usleep(PAUSE);
  }
  if (is_limited) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  struct stat status;
  if (fstat(fd, &status) == 0 && status.st_dev == place->device && status.st_ino == place->number) return fd;
  errno = ESTALE;
  return linux_give_up(fd);
}

int linux_begin_replacing(const char *path, mode_t mode, int follows, int waits, linux_place *place, char **temporary) {
  *temporary = NULL;
  *place = nowhere;
  if (follows ? linux_find_place(path, place) != 0 : enter(place, path) != 0 || look(place, AT_SYMLINK_NOFOLLOW) != 0)
    return -1;
  if (place->exists && S_ISDIR(place->mode)) return errno = EISDIR, -1;
  if (follows && place->exists && (place->is_handle || !S_ISREG(place->mode)))
    return open_there(place, O_WRONLY | (place->is_handle ? O_TRUNC : 0), waits);
  if (!place->is_ours) return errno = EACCES, -1;
  char stem[32];
  snprintf(stem, sizeof stem, ".%d", (int)getpid());
  int keeps = place->exists && mode & 077;
  int fd = linux_make_file(place->directory, stem, ".new", mode, temporary);
  // A process that may not change the owner of the new file stays its owner.
  if (fd < 0 || !keeps ||
      ((fchown(fd, place->owner, place->group) == 0 || errno) && fchmod(fd, place->mode & 0777) == 0))
    return fd;
  int error = errno;
  linux_give_up_replacing(place, *temporary);
  free(*temporary);
  *temporary = NULL;
  errno = error;
  return linux_give_up(fd);
}

int linux_put_in_place(const linux_place *place, const char *temporary) {
  if (renameat(place->directory, temporary, place->directory, place->name) == 0) return 0;
  linux_give_up_replacing(place, temporary);
  return -1;
}

void linux_give_up_replacing(const linux_place *place, const char *temporary) {
  int error = errno;
  unlinkat(place->directory, temporary, 0);
  errno = error;
}

// Returns 1 or 2 for a name of standard output or standard error; -1 for any other.
static int standard_stream(const char *path) {
  static const char *const names[][3] = {{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"},
                                         {"/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"}};
  for (int stream = 0; stream < 2; stream++)
    for (int i = 0; i < 3; i++)
      if (strcmp(path, names[stream][i]) == 0) return stream + 1;
  return -1;
}

int linux_open_log(const char *path, mode_t mode, int waits, linux_place *place) {
  *place = (linux_place){.directory = -1, .stranger = -1};
  // If the path names standard output or standard error, duplicate that descriptor. A second open of the same file
  // would have its own position, so the program's output and the log would overwrite each other.
  int stream = standard_stream(path), fd = -1;
  if (stream > 0 && (fd = fcntl(stream, F_DUPFD_CLOEXEC, 3)) >= 0) return fd;
  for (int i = 0; i < MOST_RACES; i++) {
    if (linux_find_place(path, place) != 0) return -1;
    fd = place->exists ? open_there(place, O_WRONLY | O_APPEND, waits)
                       : make(place->directory, place->name, O_WRONLY | O_APPEND, mode);
    // Try again: another process has rotated or made the file.
    if (fd >= 0 || (errno != EEXIST && errno != ENOENT && errno != ESTALE)) break;
    linux_leave_place(place);
  }
  return fd;
}
