#define _GNU_SOURCE
#include "terminal.h"

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
  // Whoever had the terminal may have changed its settings for good.
  if (current == TERMINAL_OWN) tcgetattr(0, &own);
  current = mode;
  apply(mode);
}

void terminal_say_farewell(void) {
  if (current == TERMINAL_OWN) return;
  apply(TERMINAL_OWN);
  static const char paste_off[] = "\033[?2004l\r\n";
  ssize_t written = write(output, paste_off, sizeof paste_off - 1);
  (void)written;
}

// What was to be done at those signals before.
static struct sigaction before_death[NSIG];

// The process is about to die, and the shell should find its terminal as it was. Whoever else wants to see it die comes next.
static void on_death(int number) {
  terminal_say_farewell();
  sigaction(number, &before_death[number], NULL);
  raise(number);
}

static void watch_deaths(void) {
  static char room[1 << 14];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  stack_t present;
  // For a stack that has run over.
  if (sigaltstack(NULL, &present) == 0 && present.ss_flags & SS_DISABLE) sigaltstack(&stack, NULL);
  static const int deaths[] = {SIGHUP, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
  struct sigaction action = {.sa_handler = on_death, .sa_flags = SA_NODEFER | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    struct sigaction *before = &before_death[deaths[i]];
    // Who ignores it, or handles what is no crash, has a reason.
    if (sigaction(deaths[i], NULL, before) != 0 || before->sa_handler == SIG_IGN) continue;
    if (deaths[i] != SIGHUP || before->sa_handler == SIG_DFL) sigaction(deaths[i], &action, NULL);
  }
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
  // A file of our own: that it does not block must not concern the shell, with which we share the other.
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
  watch_deaths();
  // Not all files: one from which another thread reads is locked.
  fflush(stdout);
  fflush(stderr);
  for (int fd = 1; fd <= 2; fd++) {
    if (!isatty(fd)) continue;
    captured[fd] = 1;
    dup2(slave, fd);
  }
  return control;
}

int terminal_output(void) { return output; }

void terminal_release(void) {
  fflush(stdout);
  fflush(stderr);
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

// The process goes on after having been stopped, and a shell had the terminal; or the size has changed.
static void on_change(int number) {
  int saved = errno;
  if (number == SIGCONT) continued = 1;
  copy_size();
  uint64_t one = 1;
  ssize_t written = write(changes, &one, sizeof one);
  (void)written;
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
  ssize_t taken = read(changes, &count, sizeof count);
  (void)taken;
  int was_stopped = continued;
  continued = 0;
  if (was_stopped && current != TERMINAL_OWN) apply(current);
  return was_stopped;
}

void terminal_at_exit(void (*function)(void)) { atexit(function); }

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

// Terminals of scripts --------------------------------------------------------------------------------------------------

static struct raw {
  volatile sig_atomic_t is_raw;
  int fd;
  struct termios own;
  char farewell[256];
} raws[8];

static struct raw *raw_of(int fd) {
  for (size_t i = 0; i < sizeof raws / sizeof *raws; i++)
    if (raws[i].is_raw && raws[i].fd == fd) return &raws[i];
  return NULL;
}

static void cook(struct raw *raw) {
  const char *rest = raw->farewell;
  size_t left = strlen(rest);
  while (left > 0) {
    ssize_t written = write(raw->fd, rest, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest += written;
    left -= (size_t)written;
  }
  while (tcsetattr(raw->fd, TCSANOW, &raw->own) != 0 && errno == EINTR) {}
  raw->is_raw = 0;
}

int linux_raw_terminal(int fd, int signals) {
  struct raw *raw = raw_of(fd);
  if (!raw) {
    static int is_told;
    for (size_t i = 0; i < sizeof raws / sizeof *raws && !raw; i++)
      if (!raws[i].is_raw) raw = &raws[i];
    if (!raw) {
      errno = EMFILE;
      return -1;
    }
    if (tcgetattr(fd, &raw->own) != 0) return -1;
    raw->fd = fd;
    raw->farewell[0] = 0;
    if (!is_told) atexit(linux_cook_terminals);
    is_told = 1;
    raw->is_raw = 1;
  }
  struct termios settings = raw->own;
  settings.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | (signals ? 0 : ISIG));
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  int failure;
  while ((failure = tcsetattr(fd, TCSANOW, &settings)) != 0 && errno == EINTR) {}
  return failure;
}

void linux_set_farewell(int fd, const char *text) {
  struct raw *raw = raw_of(fd);
  if (!raw) return;
  raw->farewell[0] = 0;
  if (text && strlen(text) < sizeof raw->farewell) strcpy(raw->farewell, text);
}

void linux_cook_terminal(int fd) {
  struct raw *raw = raw_of(fd);
  if (raw) cook(raw);
}

void linux_cook_terminals(void) {
  for (size_t i = 0; i < sizeof raws / sizeof *raws; i++)
    if (raws[i].is_raw) cook(&raws[i]);
}

int linux_terminal_size(int fd, int *rows, int *columns) {
  struct winsize size = {0};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return -1;
  *rows = size.ws_row;
  *columns = size.ws_col;
  return 0;
}
