// Loaded before the C library: makes system calls fail.
//
// FAULT="send:105:2:1" makes the second call of send fail with error 105; the last number is the number of calls that
// fail. FAULTS=seed makes calls of all these functions fail at random.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/types.h>

static char wanted[32];
static int error, when, times;
static _Atomic unsigned long long state;
static atomic_int calls;

__attribute__((constructor)) static void begin(void) {
  const char *fault = getenv("FAULT"), *faults = getenv("FAULTS");
  if (fault) sscanf(fault, "%31[^:]:%d:%d:%d", wanted, &error, &when, &times);
  if (faults) state = strtoull(faults, NULL, 10) * 2654435761u + 88172645463325252ull;
}

static int fails(const char *name, const int *errors, int count) {
  if (strcmp(name, wanted) == 0) {
    int n = ++calls;
    if (n < when || n >= when + times) return 0;
    errno = error;
    return 1;
  }
  if (!state) return 0;
  unsigned long long x = state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  state = x;
  if (x % 50) return 0;
  errno = errors[x / 50 % (unsigned)count];
  return 1;
}

// FAULT="epoll_wait:4096:1:1" makes epoll_wait report this many events.
static int lies(int count) {
  return strcmp(wanted, "epoll_wait") == 0 && count >= 0 && fails("epoll_wait", &error, 1) ? error : count;
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
  static int (*real)(int, struct epoll_event *, int, int);
  if (!real) real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
  return lies(real(epoll, events, count, timeout));
}

// These functions fail only on request: FAULT="getaddrinfo:-3:1:99".
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real)
    real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  return strcmp(wanted, "pthread_create") == 0 && fails("pthread_create", &error, 1)
             ? error
             : real(thread, attributes, function, argument);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
  if (!real)
    real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT,
                                                                                                   "getaddrinfo");
  return strcmp(wanted, "getaddrinfo") == 0 && fails("getaddrinfo", &error, 1) ? error
                                                                               : real(name, service, hints, found);
}

struct dirent *readdir(DIR *directory) {
  static struct dirent *(*real)(DIR *);
  if (!real) real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
  return strcmp(wanted, "readdir") == 0 && fails("readdir", &error, 1) ? NULL : real(directory);
}

#define FAULTY(result, name, parameters, arguments, ...)                               \
  result name parameters {                                                             \
    static result(*real) parameters;                                                   \
    static const int errors[] = {__VA_ARGS__};                                         \
    if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                   \
    return fails(#name, errors, sizeof errors / sizeof *errors) ? -1 : real arguments; \
  }

FAULTY(ssize_t, send, (int fd, const void *bytes, size_t count, int flags), (fd, bytes, count, flags), ENOBUFS, ENOMEM,
       EINTR, EAGAIN, EPIPE, EIO)
FAULTY(ssize_t, recv, (int fd, void *bytes, size_t count, int flags), (fd, bytes, count, flags), EINTR, EAGAIN, ENOMEM,
       ECONNRESET)
FAULTY(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event), (epoll, what, fd, event), ENOSPC,
       ENOMEM)
FAULTY(int, epoll_create1, (int flags), (flags), EMFILE, ENFILE, ENOMEM)
FAULTY(int, eventfd, (unsigned count, int flags), (count, flags), EMFILE, ENFILE, ENOMEM)
FAULTY(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags), (fd, address, length, flags),
       EMFILE, ENOBUFS, ECONNABORTED, EINTR)
FAULTY(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, ENOBUFS)
FAULTY(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), EAGAIN,
       ECONNREFUSED, EINTR)
FAULTY(int, pipe2, (int *ends, int flags), (ends, flags), EMFILE, ENFILE)
FAULTY(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), ENOSPC, ENOMEM)
FAULTY(int, inotify_init1, (int flags), (flags), EMFILE, ENFILE, ENOMEM)
FAULTY(int, timerfd_create, (int clock, int flags), (clock, flags), EMFILE, ENFILE, ENOMEM)

// Fails for files only, as on a full disk.
ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  static const int errors[] = {ENOSPC, EDQUOT, EIO, EINTR};
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fails("write", errors, 4)) return -1;
  return real(fd, bytes, count);
}
