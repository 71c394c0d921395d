#define _GNU_SOURCE
#include "standard.h"
#include "descriptors.h"
#include "errors.h"

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

// The errno of the first failed write to each standard descriptor, by the descriptor's number.
static _Atomic int losses[3];
// Whether the loss has been reported already.
static _Atomic int told[3];
static int (*_Atomic interruption)(void);
// The original streams: a prompt replaces the variables `stdout` and `stdin` for some time.
static FILE *streams[3];
// The process that opened the streams. A child that a C module has forked does not report losses of its parent.
static pid_t owner;

void linux_note_loss(int fd, int error) {
  int none = 0;
  if (fd == 1 || fd == 2)
    atomic_compare_exchange_strong_explicit(&losses[fd], &none, error, memory_order_seq_cst, memory_order_seq_cst);
}

void linux_note_told_loss(int fd, int error) {
  struct stat lost, stream;
  for (int i = 1; i <= 2; i++) {
    int is_same = fd == i || (fstat(fd, &lost) == 0 && fstat(i, &stream) == 0 && lost.st_dev == stream.st_dev &&
                              lost.st_ino == stream.st_ino);
    if (!is_same) continue;
    told[i] = 1;
    linux_note_loss(i, error);
  }
}

void linux_set_interruption(int (*has_come)(void)) { interruption = has_come; }

static int is_interrupted(void) {
  int (*has_come)(void) = interruption;
  return has_come && has_come();
}

// Waits for a descriptor that another process has made non-blocking. Signals are blocked between the check and the
// wait, so that a signal in between ends the wait.
static void wait_for_room(int fd) {
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!is_interrupted()) ppoll(&room, 1, NULL, &before);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// Writes all bytes. Returns how many were written; if not all, errno has the reason.
static size_t write_fully(int fd, const char *bytes, size_t length) {
  size_t done = 0;
  while (done < length) {
    ssize_t count = write(fd, bytes + done, length - done);
    if (count >= 0) done += (size_t)count;
    if (done == length) break;
    if (count < 0 && errno == EAGAIN) wait_for_room(fd);
    else if (count < 0 && errno != EINTR) break;
    if (is_interrupted()) {
      errno = EINTR;
      break;
    }
  }
  if (done < length) linux_note_loss(fd, errno);
  return done;
}

int linux_write_all(int fd, const void *bytes, size_t length) {
  return write_fully(fd, bytes, length) == length ? 0 : errno;
}

void linux_print(int fd, const void *bytes, size_t length) {
  FILE *stream = fd == 1 ? stdout : stderr;
  fwrite(bytes, 1, length, stream);
  fflush(stream);
}

// The streams ---------------------------------------------------------------------------------------------------------

// A plain stream of the C library would drop bytes that a non-blocking descriptor does not accept.
static ssize_t write_stream(void *cookie, const char *bytes, size_t length) {
  return (ssize_t)write_fully((int)(intptr_t)cookie, bytes, length);
}

static int seek_stream(void *cookie, off64_t *offset, int whence) {
  off64_t found = lseek64((int)(intptr_t)cookie, *offset, whence);
  if (found < 0) return -1;
  *offset = found;
  return 0;
}

static int close_stream(void *cookie) { return close((int)(intptr_t)cookie); }

static FILE *open_stream(int fd, FILE *original) {
  cookie_io_functions_t functions = {.write = write_stream, .seek = seek_stream, .close = close_stream};
  FILE *stream = fopencookie((void *)(intptr_t)fd, "w", functions);
  if (!stream) return original;
  // So that fileno(3) returns the descriptor.
  stream->_fileno = fd;
  return stream;
}

static void flush(FILE *stream) {
  // Another thread may hold the lock of a stream while it waits for room, which may never come: wait at most 100 ms for
  // that thread.
  for (int waited = 0; stream && waited < 100; waited++) {
    if (ftrylockfile(stream) == 0) {
      fflush_unlocked(stream);
      funlockfile(stream);
      return;
    }
    poll(NULL, 0, 1);
  }
}

static int is_ignored(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void report(int fd, int error) {
  char line[512];
  const char *text = linux_error_text(error);
  const char *program = *program_invocation_short_name ? program_invocation_short_name : "rlhost";
  int length = snprintf(line, sizeof line, "%s: cannot write standard %s: %s: %c%s\n", program,
                        fd == 1 ? "output" : "error", linux_error_name(error), tolower((unsigned char)*text), text + 1);
  if (length > 0) (void)linux_write_all(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

int linux_settle_standard_streams(int status) {
  if (owner != getpid()) return status;
  for (int fd = 1; fd <= 2; fd++) flush(streams[fd]);
  for (int fd = 1; fd <= 2; fd++) {
    const int error = atomic_exchange_explicit(&losses[fd], 0, memory_order_seq_cst);
    if (!error) continue;
    // Like other programs of a pipeline whose reader has gone, end quietly. A program that ignores SIGPIPE wants an
    // error.
    const int is_quiet = fd == 1 && error == EPIPE && !is_ignored(SIGPIPE);
    if (!is_quiet && !told[fd]) report(fd, error);
    if (status == 0) status = is_quiet ? 128 + SIGPIPE : 1;
  }
  return status;
}

static void settle_at_exit(int status, void *nothing) {
  (void)nothing;
  const int settled = linux_settle_standard_streams(status);
  if (settled == status) return;
  fflush(NULL);
  _exit(settled);
}

void linux_open_standard_streams(void) {
  // Usually all three are open; one system call checks that.
  struct pollfd three[] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
  const int are_open = poll(three, 3, 0) == 0;
  // The order must be ascending, since `open` takes the lowest free number.
  for (int fd = 0; fd <= 2 && !are_open; fd++)
    if (!linux_is_open(fd)) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  owner = getpid();
  stdout = streams[1] = open_stream(1, stdout);
  stderr = streams[2] = open_stream(2, stderr);
  if (isatty(1)) setvbuf(stdout, NULL, _IOLBF, 0);
  setvbuf(stderr, NULL, _IONBF, 0);
  on_exit(settle_at_exit, NULL);
}
