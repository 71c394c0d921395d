#define _GNU_SOURCE
#include "terminal.h"
#include "death.h"
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

// Makes terminals raw for scripts, lends the terminal to a program, and undoes both.

static struct raw {
  volatile sig_atomic_t is_raw;
  volatile sig_atomic_t is_put_down;  // its settings are restored during a stop
  int fd;
  struct termios own, settings;
  char greeting[256], farewell[256];
} raws[8];

// The process that changed the terminals. A child that a C module has forked restores nothing.
static pid_t owner;

static struct raw *raw_of(int fd) {
  for (size_t i = 0; i < sizeof raws / sizeof *raws; i++)
    if (raws[i].is_raw && raws[i].fd == fd) return &raws[i];
  return NULL;
}

// Returns whether this process's group is in the foreground: the settings must not change while another group has the
// terminal.
static int is_in_front(int fd) {
  const pid_t front = tcgetpgrp(fd);
  return front < 0 || front == getpgrp();
}

static void write_all(int fd, const char *rest) {
  size_t left = strlen(rest);
  while (left > 0) {
    ssize_t written = write(fd, rest, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest += written;
    left -= (size_t)written;
  }
}

static void put_down(struct raw *raw) {
  if (raw->is_put_down || !is_in_front(raw->fd)) return;
  write_all(raw->fd, raw->farewell);
  while (tcsetattr(raw->fd, TCSANOW, &raw->own) != 0 && errno == EINTR) {}
}

static void cook(struct raw *raw) {
  put_down(raw);
  raw->is_put_down = raw->is_raw = 0;
}

void linux_take_terminals_up(void) {
  if (owner != getpid()) return;
  int some = 0;
  for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
    struct raw *raw = &raws[i];
    if (!raw->is_raw || !is_in_front(raw->fd)) continue;
    while (tcsetattr(raw->fd, TCSANOW, &raw->settings) != 0 && errno == EINTR) {}
    write_all(raw->fd, raw->greeting);
    raw->is_put_down = 0;
    some = 1;
  }
  // Programs that draw at a change of the window's size draw again.
  if (some) kill(owner, SIGWINCH);
}

static void on_continue(int number, siginfo_t *information, void *context) {
  (void)number, (void)information, (void)context;
  const int saved = errno;
  linux_take_terminals_up();
  errno = saved;
}

// Restores the settings until linux_take_terminals_up.
static void put_all_down(void) {
  if (owner != getpid()) return;
  for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
    if (!raws[i].is_raw || raws[i].is_put_down) continue;
    put_down(&raws[i]);
    raws[i].is_put_down = 1;
  }
}

// During a stop, a shell has the terminal, so restore its settings.
static void on_stop(int number, siginfo_t *information, void *context) {
  (void)information, (void)context;
  const int saved = errno;
  struct sigaction standard = {.sa_handler = SIG_DFL}, before;
  put_all_down();
  sigaction(number, &standard, &before);
  raise(number);
  // SIGCONT has continued this process. Or the kernel has ignored the stop, as in an orphaned group, which nobody could
  // continue.
  sigaction(number, &before, NULL);
  linux_take_terminals_up();
  errno = saved;
}

void linux_guard_terminals(void) {
  owner = getpid();
  linux_at_death(LINUX_GIVE_TERMINALS_BACK, linux_cook_terminals);
  linux_at_end(LINUX_GIVE_TERMINALS_BACK, linux_cook_terminals);
  linux_guard_signal(SIGTSTP, 0, on_stop);
  linux_guard_signal(SIGCONT, 0, on_continue);
}

int linux_raw_terminal(int fd, int signals) {
  struct raw *raw = raw_of(fd);
  if (!raw) {
    for (size_t i = 0; i < sizeof raws / sizeof *raws && !raw; i++)
      if (!raws[i].is_raw) raw = &raws[i];
    if (!raw) {
      errno = EMFILE;
      return -1;
    }
    if (tcgetattr(fd, &raw->own) != 0) return -1;
    raw->fd = fd;
    raw->greeting[0] = raw->farewell[0] = 0;
    raw->settings = raw->own;
    linux_guard_terminals();
    raw->is_raw = 1;
  }
  struct termios settings = raw->own;
  settings.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | (signals ? 0 : ISIG));
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  raw->settings = settings;
  int failure;
  while ((failure = tcsetattr(fd, TCSANOW, &settings)) != 0 && errno == EINTR) {}
  return failure;
}

static void set_text(char *room, const char *text) {
  room[0] = 0;
  if (strlen(text) < sizeof raws->farewell) strcpy(room, text);
}

void linux_set_farewell(int fd, const char *greeting, const char *farewell) {
  struct raw *raw = raw_of(fd);
  if (!raw) return;
  set_text(raw->greeting, greeting);
  set_text(raw->farewell, farewell);
}

void linux_cook_terminal(int fd) {
  struct raw *raw = raw_of(fd);
  if (raw) cook(raw);
}

void linux_cook_terminals(void) {
  if (owner != getpid()) return;
  linux_take_terminal_back(0);
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

// Lending -------------------------------------------------------------------------------------------------------------

static volatile sig_atomic_t lent_to;
static int lent = -1;
static struct termios before_lending;

// The kernel stops a background process that sets the foreground group, unless it blocks SIGTTOU.
static void put_in_front(int group) {
  sigset_t output, before;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  sigprocmask(SIG_BLOCK, &output, &before);
  tcsetpgrp(lent, group);
  if (group == getpgrp())
    while (tcsetattr(lent, TCSANOW, &before_lending) != 0 && errno == EINTR) {}
  sigprocmask(SIG_SETMASK, &before, NULL);
}

int linux_terminal_to_lend(void) {
  if (lent_to) {
    errno = EBUSY;
    return -1;
  }
  if (lent < 0) lent = linux_lift(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (lent >= 0 && tcgetpgrp(lent) == getpgrp()) {
    put_all_down();
    if (tcgetattr(lent, &before_lending) == 0) return lent;
    linux_take_terminals_up();
  }
  errno = ENOTTY;
  return -1;
}

int linux_terminal_is_lent(void) { return lent_to != 0; }

void linux_lend_terminal(int group) {
  linux_guard_terminals();
  lent_to = group;
  put_in_front(group);
}

void linux_take_terminal_back(int group) {
  if (!lent_to || (group && group != lent_to)) return;
  lent_to = 0;
  put_in_front(getpgrp());
  if (group) linux_take_terminals_up();
}
