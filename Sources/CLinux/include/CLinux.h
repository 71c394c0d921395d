// CLinux: the system calls that Swift's Glibc module does not show, or shows only as variadic functions.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "terminal.h"

/// Nanoseconds of CLOCK_MONOTONIC.
static inline int64_t linux_monotonic_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// The same with a resolution of a few milliseconds, for a quarter of the price.
static inline int64_t linux_monotonic_coarse(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Lets the processor fetch what is `offset` bytes from an address, which need not exist.
static inline void linux_prefetch(const void *address, int offset) { __builtin_prefetch((const char *)address + offset); }

/// Seconds of CLOCK_REALTIME.
static inline double linux_wall_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/// epoll_pwait2 with a timeout in nanoseconds, negative for none. Kernels before 5.11 lack it: there, whole
/// milliseconds, rounded up, so that nothing ends early.
int linux_epoll_wait(int epoll, struct epoll_event *events, int count, int64_t timeout);

/// Says that a loop's own descriptors are gone, and ends the process with status 1.
_Noreturn void linux_lose_loop(void);

/// An epoll instance with a wake-up descriptor in it, under the token of all ones. -1 and errno: there is none.
int linux_epoll_waking(int wake);

/// Fills the places of standard descriptors that are closed, so that no file opened later gets their numbers, and what is
/// meant for the standard output ends up in it. Reading and writing there goes on to fail with EBADF.
void linux_keep_standard_descriptors(void);

/// Lets other threads run.
static inline void linux_yield(void) { sched_yield(); }

/// What poll(2) says of one descriptor right now: POLLIN, POLLOUT, POLLHUP, POLLERR, POLLRDHUP, POLLNVAL; 0 for nothing.
static inline short linux_poll_now(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  int n;
  do n = poll(&p, 1, 0);
  while (n < 0 && errno == EINTR);
  return n > 0 ? p.revents : 0;
}

typedef struct {
  short first, second;
} linux_two_answers;

/// The same of two at once.
static inline linux_two_answers linux_poll_two_now(int first, short first_events, int second, short second_events) {
  struct pollfd p[] = {{.fd = first, .events = first_events}, {.fd = second, .events = second_events}};
  int n;
  do n = poll(p, 2, 0);
  while (n < 0 && errno == EINTR);
  return n > 0 ? (linux_two_answers){p[0].revents, p[1].revents} : (linux_two_answers){0, 0};
}

/// Writes all of it, however often the system call takes a part, or waits for room. Gives up at an error.
void linux_write_all(int fd, const void *bytes, size_t length);

/// Whether the number is an open descriptor's.
static inline int linux_is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

/// close(2), under a name that no method hides.
static inline void linux_close(int fd) { close(fd); }

/// The calling thread's error number.
static inline int linux_errno(void) { return errno; }

/// How many bytes can be read without waiting; 0 if that cannot be told.
static inline int linux_bytes_to_read(int fd) {
  int n = 0;
  return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

/// A wait of this thread ends as exactly as the hardware allows; the default lets the kernel be 50 microseconds late.
static inline void linux_be_punctual(void) { prctl(PR_SET_TIMERSLACK, 1UL); }

/// Names the calling thread, as debuggers and `ps` show it; the kernel keeps 15 bytes.
static inline void linux_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

static inline int linux_is_main_thread(void) { return getpid() == (pid_t)syscall(SYS_gettid); }

/// Writes all of it to C's standard output (1) or standard error, through their buffers, and flushes.
void linux_print(int fd, const void *bytes, size_t length);

// Sockets between processes. What can fail returns -1 and sets errno.

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
/// A listening socket under a name that is known to be free or left over. Only its owner can connect.
int linux_listen(int directory, const char *name, const char *temporary, linux_file_id *id);
/// A connection to the socket under a name.
int linux_connect(int directory, const char *name);
int linux_accept(int fd);
/// Who is at the other end.
int linux_peer(int fd, uint32_t *user, int32_t *process);
/// Removes a file, if it is still this one.
void linux_remove(int directory, const char *name, linux_file_id id);
/// Neither waits, and neither raises SIGPIPE.
int64_t linux_receive(int fd, void *bytes, size_t count);
int64_t linux_send(int fd, const void *bytes, size_t count);
static inline uint32_t linux_user(void) { return geteuid(); }
static inline int32_t linux_process(void) { return getpid(); }
static inline const char *linux_environment(const char *name) { return getenv(name); }
/// "ENOENT" and "no such file or directory" have their own place; this is what the C library says.
static inline const char *linux_error_text(int number) { return strerror(number); }

/// Has SIGINT, SIGTERM and SIGHUP wait in a descriptor, which is returned, instead of ending the process: for a program that
/// runs nothing but its loop. -1 on failure.
int linux_watch_signals(void);
/// The number of the next signal there, or 0.
int linux_take_watched_signal(int fd);

/// One pointer for each thread: its run loop. `drop` is called with it when the thread ends.
void *linux_thread_value(void);
void linux_set_thread_value(void *value, void (*drop)(void *));

/// Waits until one of two descriptors is readable, at most so many nanoseconds; negative: without limit.
void linux_poll_both(int a, int b, int64_t timeout);
