// Descriptors and files.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/// Whether the number is an open descriptor's.
static inline int linux_is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

/// close(2), under a name that no method hides.
static inline void linux_close(int fd) { close(fd); }

/// Closes it, if it is one, and keeps errno: -1.
static inline int linux_give_up(int fd) {
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

/// Moves a descriptor, if it is one, above those that a program gets. Its number from now on; -1 and errno.
int linux_lift(int fd);

/// How many bytes can be read without waiting; 0 if that cannot be told.
static inline int linux_bytes_to_read(int fd) {
  int n = 0;
  return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

/// Reading and writing do not wait from now on. -1 and errno: there is no such descriptor.
int linux_set_nonblocking(int fd);

/// Marks which of the descriptors 0 to count - 1 are open.
void linux_open_descriptors(unsigned char *open, int count);

/// A file's identity: its device and number.
typedef struct {
  uint64_t device, number;
} linux_file_id;

/// Makes a directory that only its owner can use, if there is none, and opens it. Neither a symbolic link nor one that is
/// somebody else's, or open to others, will do: EACCES, with owner and mode told.
int linux_open_private_directory(const char *path, int make, uint32_t *owner, uint32_t *mode);
/// Takes the exclusive lock that a file stands for, until the descriptor is closed or the process ends. EADDRINUSE: somebody
/// has it.
int linux_lock(int directory, const char *name);
/// Between these two nobody else clears the directory. -1: somebody else does so now.
int linux_begin_clearing(int directory);
void linux_end_clearing(int directory);
/// Removes a name and its lock file, if nobody has the lock.
void linux_clear(int directory, const char *name, const char *lock);
/// Removes a file, if it is still this one.
void linux_remove(int directory, const char *name, linux_file_id id);
