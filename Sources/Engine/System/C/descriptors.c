#define _GNU_SOURCE
#include "descriptors.h"
#include "epoll.h"
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>

// See `out_of_the_way` in programs.c.
int linux_lift(int fd) {
  if (fd < 0 || fd > 3) return fd;
  int higher = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  return higher;
}

int linux_set_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

// Checks 256 descriptors with each system call.
void linux_open_descriptors(unsigned char *open, int count) {
  struct pollfd all[256];
  for (int first = 0; first < count; first += 256) {
    int n = count - first < 256 ? count - first : 256;
    for (int i = 0; i < n; i++) all[i] = (struct pollfd){.fd = first + i};
    poll(all, (nfds_t)n, 0);
    for (int i = 0; i < n; i++) open[first + i] = !(all[i].revents & POLLNVAL);
  }
}

// If memory runs out, the list stays incomplete.
static void add_to(int **list, int *count, int fd) {
  int is_full = *count < 64 ? *count == 0 : (*count & (*count - 1)) == 0;
  int *larger = is_full ? realloc(*list, (size_t)(*count ? *count * 2 : 64) * sizeof fd) : *list;
  if (!larger) return;
  *list = larger;
  larger[(*count)++] = fd;
}

int linux_list_descriptors(int **list) {
  enum { MOST = 1 << 20 };
  int count = 0;
  *list = NULL;
  DIR *directory = opendir("/proc/self/fd");
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory)) add_to(list, &count, atoi(entry->d_name));
  if (directory) return closedir(directory), count;
  struct rlimit limit = {.rlim_cur = 0};
  getrlimit(RLIMIT_NOFILE, &limit);
  int most = limit.rlim_cur < MOST ? (int)limit.rlim_cur : MOST;
  unsigned char *open = malloc((size_t)most);
  if (open) linux_open_descriptors(open, most);
  for (int fd = 0; open && fd < most; fd++)
    if (open[fd]) add_to(list, &count, fd);
  free(open);
  return count;
}

int linux_open_private_directory(const char *path, int make, uint32_t *owner, uint32_t *mode) {
  // The umask can only remove bits.
  if (make && mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat status;
  if (fstat(fd, &status) != 0) return linux_give_up(fd);
  *owner = status.st_uid;
  *mode = status.st_mode & 07777;
  if (status.st_uid == geteuid() && !(status.st_mode & 077)) return fd;
  errno = EACCES;
  return linux_give_up(fd);
}

int linux_lock(int directory, const char *name) {
  for (;;) {
    int fd = linux_open_own(directory, name, O_RDWR);
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return linux_give_up(fd);
      // Another process that checks for files of dead processes may hold the shared lock for a moment.
      if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        close(fd);
        sched_yield();
        continue;
      }
      if (errno == EWOULDBLOCK) errno = EADDRINUSE;
      return linux_give_up(fd);
    }
    // The previous holder may have removed the file between the open and the lock. No other process would then notice
    // the lock of the removed file.
    struct stat ours, current;
    if (fstat(fd, &ours) != 0) return linux_give_up(fd);
    if (fstatat(directory, name, &current, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == current.st_ino &&
        ours.st_dev == current.st_dev)
      return fd;
    close(fd);
  }
}

int linux_begin_clearing(int directory) { return flock(directory, LOCK_EX | LOCK_NB); }

void linux_end_clearing(int directory) { flock(directory, LOCK_UN); }

void linux_clear(int directory, const char *name, const char *lock) {
  int fd = openat(directory, lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat ours, current;
  // The shared lock shows that no process has the exclusive lock, and keeps others from getting it.
  if (flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &ours) == 0 && S_ISREG(ours.st_mode) &&
      fstatat(directory, lock, &current, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == current.st_ino &&
      ours.st_dev == current.st_dev) {
    unlinkat(directory, name, 0);
    unlinkat(directory, lock, 0);
  }
  close(fd);
}

void linux_remove(int directory, const char *name, linux_file_id id) {
  struct stat status;
  // A child that C code has forked must leave its parent's files alone.
  if (!linux_is_fork && fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_dev == id.device &&
      status.st_ino == id.number)
    unlinkat(directory, name, 0);
}
