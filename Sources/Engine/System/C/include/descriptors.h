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

/// Returns whether the number is an open descriptor.
static inline int linux_is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

/// Calls close(2): in Swift, a method named `close` would hide the C function.
static inline void linux_close(int fd) { close(fd); }

/// Closes the descriptor, unless it is negative, and keeps errno. Returns -1.
static inline int linux_give_up(int fd) {
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

/// Moves a descriptor, unless it is negative, above the numbers that programs get. Returns the descriptor's new number;
/// -1 and errno on failure.
int linux_lift(int fd);

/// Returns the number of bytes that can be read without waiting; 0 if unknown.
static inline int linux_bytes_to_read(int fd) {
  int n = 0;
  return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

/// Makes reading and writing return EAGAIN instead of waiting. -1 and errno if the descriptor is not open.
int linux_set_nonblocking(int fd);

/// Sets for each of the descriptors 0 to count - 1 whether it is open.
void linux_open_descriptors(unsigned char *open, int count);
/// Lists this process's open descriptors. Returns the number of descriptors; the caller frees the list. O(open
/// descriptors); O(limit of descriptors) if /proc/self/fd cannot be read, as in a sandbox.
int linux_list_descriptors(int **list);

/// The identity of a file: its device and number.
typedef struct {
  uint64_t device, number;
} linux_file_id;

/// Opens a directory that only its owner can use; makes it first if asked to. Fails with EACCES for a symbolic link,
/// and for a directory that another user owns or can use; `owner` and `mode` then have the reason.
int linux_open_private_directory(const char *path, int make, uint32_t *owner, uint32_t *mode);
/// Takes the exclusive lock of a file. The lock lasts until the descriptor is closed or the process ends. Fails with
/// EADDRINUSE if another process holds it.
int linux_lock(int directory, const char *name);
/// Between these two calls, no other process clears the directory. Returns -1 if another process clears it now.
int linux_begin_clearing(int directory);
void linux_end_clearing(int directory);
/// Removes a name and its lock file if no process holds the lock.
void linux_clear(int directory, const char *name, const char *lock);
/// Removes the file with this name if it has this identity.
void linux_remove(int directory, const char *name, linux_file_id id);
