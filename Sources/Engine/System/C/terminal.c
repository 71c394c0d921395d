#define _GNU_SOURCE
#include "terminal.h"
#include "death.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios own;
static int output = -1, changes = -1, relay = -1, slave = -1;
static int captured[3];
static enum terminal_mode current = TERMINAL_OWN;

int terminal_open(void) { return isatty(0) && tcgetattr(0, &own) == 0; }

static void apply(enum terminal_mode mode) {
  struct termios settings = own;
  if (mode != TERMINAL_OWN) {
    settings.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
    settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    settings.c_cc[VMIN] = 1;
    settings.c_cc[VTIME] = 0;
  }
  while (tcsetattr(0, TCSANOW, &settings) != 0 && errno == EINTR) {}
}

void terminal_set_mode(enum terminal_mode mode) {
  if (mode == current) return;
  // A program that had the terminal may have changed its settings on purpose, so store the settings again.
  if (current == TERMINAL_OWN) tcgetattr(0, &own);
  current = mode;
  apply(mode);
  // Control-D marks the stream as ended: clear that mark, so that later input can be read.
  if (mode == TERMINAL_RAW) clearerr(stdin);
}

// Restores the terminal, and turns off bracketed paste, before a signal ends the process.
static void say_farewell(void) {
  if (current == TERMINAL_OWN) return;
  apply(TERMINAL_OWN);
  static const char paste_off[] = "\033[?2004l\r\n";
  (void)!write(output, paste_off, sizeof paste_off - 1);
}

int terminal_adds_returns(void) {
  struct termios settings;
  return tcgetattr(output, &settings) == 0 && settings.c_oflag & OPOST && settings.c_oflag & ONLCR;
}

int terminal_echoes(void) {
  struct termios settings;
  return tcgetattr(0, &settings) == 0 && settings.c_lflag & ECHO;
}

int terminal_keys(void) {
  // Open the terminal again, so that only the new descriptor is non-blocking: the shell shares descriptor 0.
  int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return fd < 0 ? 0 : fd;
}

void terminal_size(int *columns, int *rows) {
  struct winsize size = {0};
  ioctl(output >= 0 ? output : 1, TIOCGWINSZ, &size);
  *columns = size.ws_col;
  *rows = size.ws_row;
}

static void copy_size(void) {
  struct winsize size;
  if (relay >= 0 && ioctl(output, TIOCGWINSZ, &size) == 0) ioctl(relay, TIOCSWINSZ, &size);
}

int terminal_capture(void) {
  int control;
  output = fcntl(isatty(1) ? 1 : 0, F_DUPFD_CLOEXEC, 3);
  if (output < 0) return -1;
  if (openpty(&control, &slave, NULL, NULL, NULL) != 0) return -1;
  struct termios settings;
  tcgetattr(slave, &settings);
  cfmakeraw(&settings);
  tcsetattr(slave, TCSANOW, &settings);
  fcntl(control, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  relay = control;
  copy_size();
  linux_guard_terminals();
  linux_at_death(LINUX_LEAVE_PROMPT, say_farewell);
  // Do not use fflush(NULL): it would wait for the lock of a stream from which another thread reads.
  terminal_flush();
  for (int fd = 1; fd <= 2; fd++) {
    if (!isatty(fd)) continue;
    captured[fd] = 1;
    dup2(slave, fd);
  }
  return control;
}

int terminal_output(void) { return output; }

void terminal_release(void) {
  terminal_flush();
  for (int fd = 1; fd <= 2; fd++) {
    if (captured[fd]) dup2(output, fd);
    captured[fd] = 0;
  }
}

void terminal_lend(int lends) {
  fflush(stderr);
  if (captured[2]) dup2(lends ? output : slave, 2);
}

static volatile sig_atomic_t continued;

// Handles SIGCONT, after a shell may have had the terminal, and SIGWINCH.
static void on_change(int number) {
  int saved = errno;
  if (number == SIGCONT) {
    continued = 1;
    linux_take_terminals_up();
  }
  copy_size();
  uint64_t one = 1;
  (void)!write(changes, &one, sizeof one);
  errno = saved;
}

int terminal_watch(void) {
  changes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {.sa_handler = on_change, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, NULL);
  sigaction(SIGCONT, &action, NULL);
  return changes;
}

int terminal_take_change(void) {
  uint64_t count;
  (void)!read(changes, &count, sizeof count);
  int was_stopped = continued;
  continued = 0;
  if (was_stopped && current != TERMINAL_OWN) apply(current);
  return was_stopped;
}

void terminal_flush(void) {
  fflush(stdout);
  fflush(stderr);
}

size_t terminal_buffered_input(void) { return (size_t)(stdin->_IO_read_end - stdin->_IO_read_ptr); }

char *terminal_read_line(size_t *length) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n = getline(&line, &capacity, stdin);
  if (n < 0) {
    free(line);
    return NULL;
  }
  if (n > 0 && line[n - 1] == '\n') n--;
  *length = (size_t)n;
  return line;
}
