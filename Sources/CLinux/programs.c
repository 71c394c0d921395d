#define _GNU_SOURCE
#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int linux_start_program(const linux_program *program, int *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure) return failure;
  failure = posix_spawnattr_init(&attributes);
  if (failure) {
    posix_spawn_file_actions_destroy(&actions);
    return failure;
  }
  if (program->directory) failure = posix_spawn_file_actions_addchdir_np(&actions, program->directory);
  for (int i = 0; i < 4 && !failure; i++) {
    int from = program->descriptors[i];
    if (i < 3 && program->terminal) {
      // Opening it makes it the terminal of the session that begins here.
      failure = i == 0 ? posix_spawn_file_actions_addopen(&actions, 0, program->terminal, O_RDWR, 0)
                       : posix_spawn_file_actions_adddup2(&actions, 0, i);
    } else if (from >= 0) {
      failure = posix_spawn_file_actions_adddup2(&actions, from, i);
    } else if (i < 3) {
      failure = posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
    }
  }
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                (program->terminal ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  if (!failure)
    failure = posix_spawnp(pid, program->arguments[0], &actions, &attributes, program->arguments,
                           program->environment ? program->environment : environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure;
}

int linux_program_ended(int pid, int *number) {
  int status = 0;
  pid_t found = waitpid(pid, &status, WNOHANG);
  if (found == 0) return 0;
  if (found < 0) return -1;
  *number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return WIFSIGNALED(status) ? 2 : 1;
}

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int linux_watch_program(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

static int lift(int fd) {
  if (fd < 0 || fd >= 10) return fd;
  int higher = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  return higher;
}

int linux_make_pipe(int ends[2], int two_way) {
  if (two_way ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) return -1;
  ends[0] = lift(ends[0]);
  ends[1] = lift(ends[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return 0;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  errno = EMFILE;
  return -1;
}

int linux_open_terminal(int rows, int columns, char *name, size_t size) {
  int master = lift(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (master < 0) return -1;
  if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, size) ||
      linux_resize_terminal(master, rows, columns)) {
    int failure = errno;
    close(master);
    errno = failure;
    return -1;
  }
  return master;
}

int linux_open_slave(const char *name) { return lift(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)); }

int linux_resize_terminal(int master, int rows, int columns) {
  struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
  return ioctl(master, TIOCSWINSZ, &size);
}
