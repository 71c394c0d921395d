#define _GNU_SOURCE
#include "programs.h"
#include "death.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "resting.h"
#include "terminal.h"

extern char **environ;

// If a descriptor has a number from 0 to 3 and the program gets it under another number, duplicates the descriptor.
// Otherwise the copy of another descriptor could get this number first, and close this descriptor.
static int out_of_the_way(int from, int to, int *spare) {
  *spare = from >= 0 && from <= 3 && from != to ? fcntl(from, F_DUPFD_CLOEXEC, 10) : -1;
  return *spare >= 0 ? *spare : from;
}

static int start(const linux_program *program, int *pid) {
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
      // Opening the terminal makes it the terminal of the new session.
      failure = i == 0 ? posix_spawn_file_actions_addopen(&actions, 0, program->terminal, O_RDWR, 0)
                       : posix_spawn_file_actions_adddup2(&actions, 0, i);
    } else if (from >= 0) {
      failure = posix_spawn_file_actions_adddup2(&actions, from, i);
    } else if (i < 3) {
      failure = posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
    }
  }
  // The program must not hold files open that the script has opened with io.open, or that belong to C modules.
  if (!failure) failure = posix_spawn_file_actions_addclosefrom_np(&actions, program->descriptors[3] >= 0 ? 4 : 3);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(
      &attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                           (program->terminal || program->leads_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  if (!failure)
    failure = posix_spawnp(pid, program->arguments[0], &actions, &attributes, program->arguments,
                           program->environment ? program->environment : environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure;
}

// Starts a program with vfork. posix_spawn cannot request a signal at the parent's death, and in older C libraries it
// cannot set the terminal.
static int start_mortal(const linux_program *program, int *pid) {
  sigset_t all, before, none;
  sigfillset(&all);
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  volatile int failure = 0;
  // Until exec, the child shares our memory and runs on our stack. So the child only makes system calls, and none of
  // our handlers may run in it.
  pid_t child = vfork();
  if (child == 0) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) sigaction(number, &standard, NULL);
    if (program->terminal || program->leads_session) setsid();
    else setpgid(0, 0);
    // tcsetpgrp does not stop the child, since all signals are blocked.
    if (program->foreground >= 0) tcsetpgrp(program->foreground, getpid());
    int refused = (program->dies_with_us && prctl(PR_SET_PDEATHSIG, SIGKILL)) ||
                  (program->directory && chdir(program->directory));
    for (int i = 0; i < 4 && !refused; i++) {
      int from = program->descriptors[i];
      if (i < 3 && program->terminal) from = i ? 0 : open(program->terminal, O_RDWR);
      else if (from < 0 && i < 3) from = open("/dev/null", i ? O_WRONLY : O_RDONLY);
      else if (from < 0) continue;
      if (from == i) refused = fcntl(from, F_SETFD, 0) < 0;
      else refused = from < 0 || dup2(from, i) < 0;
    }
    syscall(SYS_close_range, program->descriptors[3] >= 0 ? 4U : 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    // The parent may have ended before the child requested the signal.
    if (!refused && getppid() == parent) {
      sigprocmask(SIG_SETMASK, &none, NULL);
      execvpe(program->arguments[0], program->arguments, program->environment ? program->environment : environ);
    }
    failure = errno ? errno : ECHILD;
    _exit(127);
  }
  const int refused = child < 0 ? errno : 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (child < 0) return refused;
  if (failure) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    return failure;
  }
  *pid = child;
  return 0;
}

// The kernel sends the signal when the thread that started the program ends. So a thread that never ends starts such
// programs.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_running;
  enum { FREE, ASKED, ANSWERED } state;
  const linux_program *program;
  int *pid, failure;
} nurse = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *nurse_all(void *nothing) {
  (void)nothing;
  pthread_mutex_lock(&nurse.lock);
  for (;;) {
    while (nurse.state != ASKED) pthread_cond_wait(&nurse.changed, &nurse.lock);
    nurse.failure = start_mortal(nurse.program, nurse.pid);
    nurse.state = ANSWERED;
    pthread_cond_broadcast(&nurse.changed);
  }
  return NULL;
}

static int start_by_nurse(const linux_program *program, int *pid) {
  pthread_mutex_lock(&nurse.lock);
  int failure = 0;
  if (!nurse.is_running) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    failure = pthread_create(&thread, NULL, nurse_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failure) pthread_detach(thread);
    nurse.is_running = !failure;
    if (!failure) linux_count_thread(1);
  }
  if (!failure) {
    while (nurse.state != FREE) pthread_cond_wait(&nurse.changed, &nurse.lock);
    nurse.program = program;
    nurse.pid = pid;
    nurse.state = ASKED;
    pthread_cond_broadcast(&nurse.changed);
    while (nurse.state != ANSWERED) pthread_cond_wait(&nurse.changed, &nurse.lock);
    failure = nurse.failure;
    nurse.state = FREE;
    pthread_cond_broadcast(&nurse.changed);
  }
  pthread_mutex_unlock(&nurse.lock);
  return failure;
}

// Returns whether a group has a process that is not a zombie. Zombies stay in a group until their parent waits for
// them, which the first process of a container may never do.
static int has_living(int group) {
  DIR *processes = opendir("/proc");
  if (!processes) return 1;
  const int ours = getsid(0);
  int found = 0;
  for (struct dirent *entry; !found && (entry = readdir(processes));) {
    char path[300], text[512], state = 0;
    int of = 0, session = 0;
    if (*entry->d_name < '0' || *entry->d_name > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (count <= 0) continue;
    text[count] = 0;
    // The fields begin after the last ")": the program's name before it may contain any bytes.
    const char *end = strrchr(text, ')');
    found = end && sscanf(end + 1, " %c %*d %d %d", &state, &of, &session) == 3 && of == group &&
            (session == group || session == ours) && state != 'Z' && state != 'X';
  }
  closedir(processes);
  return found;
}

// While a group has processes, no new process gets the group's number. So if a process has this number, the group with
// this number is a newer one.
static int is_left(int pid) { return kill(-pid, 0) == 0 && kill(pid, 0) != 0 && errno == ESRCH && has_living(pid); }

struct owned {
  int pid, has_ended;
  const void *owner;
};

// The programs that must not outlive their owners; see `Program.endAll`.
static struct {
  pthread_mutex_t lock;
  struct owned *all;
  int count, capacity;
  int is_closed;  // no further such program is started
  pid_t process;  // the process that started them: a child forked by a C module must not end them
} owned = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Blocks all signals: a handler that ends the process needs the list, and would wait for the thread that it has
// interrupted.
static void lock_owned(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
  pthread_mutex_lock(&owned.lock);
}

static void unlock_owned(const sigset_t *before) {
  pthread_mutex_unlock(&owned.lock);
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

// Returns whether the leader has ended and was waited for, and its group has no process left.
static int is_over(int pid, int looks) {
  return waitpid(pid, NULL, WNOHANG) != 0 && (kill(-pid, 0) != 0 || (looks && !has_living(pid)));
}

static void signal_all(const struct owned *all, int count, int number) {
  for (int i = 0; i < count; i++) {
    kill(-all[i].pid, number);
    // Stopped processes get the signal only when they continue.
    if (number != SIGKILL) kill(-all[i].pid, SIGCONT);
  }
}

// Other threads continue until this process has ended, so forbid further starts: nothing would end a program that they
// started now.
static void end_all(void) {
  if (owned.process != getpid()) return;
  sigset_t before;
  lock_owned(&before);
  owned.is_closed = 1;
  unlock_owned(&before);
  linux_end_programs(NULL);
}

// Ends all programs when a signal ends the process, without allocating memory. Another thread may have the lock while
// it starts a program.
static void end_all_at_death(void) {
  if (owned.process != getpid()) return;
  int is_locked = 0;
  for (int i = 0; i < 1000 && !is_locked; i++) {
    is_locked = pthread_mutex_trylock(&owned.lock) == 0;
    if (!is_locked) poll(NULL, 0, 2);
  }
  if (!is_locked) return;
  for (int i = 0; i < owned.count; i++)
    if (owned.all[i].has_ended && (kill(-owned.all[i].pid, 0) != 0 || kill(owned.all[i].pid, 0) == 0))
      owned.all[i--] = owned.all[--owned.count];
  signal_all(owned.all, owned.count, SIGTERM);
  for (int waited = 0; owned.count > 0 && waited <= 1000; waited++) {
    for (int i = owned.count - 1; i >= 0; i--)
      if (is_over(owned.all[i].pid, 0)) owned.all[i] = owned.all[--owned.count];
    if (waited == 500) signal_all(owned.all, owned.count, SIGKILL);
    if (owned.count > 0) poll(NULL, 0, 2);
  }
  pthread_mutex_unlock(&owned.lock);
}

// Makes room for one more program, and sets the functions that end programs when the process ends. Returns 0 or an
// errno.
static int reserve(void) {
  if (owned.process != getpid()) owned.count = 0;
  owned.process = getpid();
  for (int i = owned.count - 1; i >= 0 && owned.count == owned.capacity; i--)
    if (owned.all[i].has_ended && !is_left(owned.all[i].pid)) owned.all[i] = owned.all[--owned.count];
  if (owned.count < owned.capacity) return 0;
  const int capacity = owned.capacity ? owned.capacity * 2 : 8;
  struct owned *larger = realloc(owned.all, (size_t)capacity * sizeof *larger);
  if (!larger) return ENOMEM;
  linux_at_end(LINUX_END_PROGRAMS, end_all);
  linux_at_death(LINUX_END_PROGRAMS, end_all_at_death);
  owned.all = larger;
  owned.capacity = capacity;
  return 0;
}

// Signals are blocked during the start. So a signal that ends the process finds each program either in the list or not
// started yet.
static int start_owned(const linux_program *program, int *pid) {
  sigset_t before;
  lock_owned(&before);
  int failure = !program->owner ? 0 : owned.is_closed && owned.process == getpid() ? ECANCELED : reserve();
  if (!failure)
    failure = program->dies_with_us      ? start_by_nurse(program, pid)
              : program->foreground >= 0 ? start_mortal(program, pid)
                                         : start(program, pid);
  if (!failure && program->owner) owned.all[owned.count++] = (struct owned){.pid = *pid, .owner = program->owner};
  unlock_owned(&before);
  return failure;
}

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int linux_watch_program(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int linux_refuses_to_watch_programs(void) {
  static _Atomic int is_known;
  if (is_known) return 0;
  int fd = linux_watch_program(getpid());
  // Container sandboxes that do not know the call refuse it with EPERM. Other errors are temporary.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return errno;
  if (fd >= 0) close(fd);
  is_known = 1;
  return 0;
}

int linux_start_program(const linux_program *program, int *pid) {
  linux_program copy = *program;
  int spare[4];
  for (int i = 0; i < 4; i++) copy.descriptors[i] = out_of_the_way(program->descriptors[i], i, &spare[i]);
  const int is_lent = program->foreground >= 0;
  int failure = start_owned(&copy, pid);
  // If the start failed, the child may have taken the terminal, so this process's group gets it back. A started program
  // has taken the terminal itself, unless it has ended.
  if (is_lent) linux_lend_terminal(failure ? getpgrp() : *pid);
  if (is_lent && failure) linux_take_terminal_back(0);
  for (int i = 0; i < 4; i++)
    if (spare[i] >= 0) close(spare[i]);
  return failure;
}

int linux_group_is_left(int pid) {
  const int left = is_left(pid);
  sigset_t before;
  lock_owned(&before);
  for (int i = 0; i < owned.count; i++)
    if (owned.all[i].pid == pid) owned.all[i].has_ended = 1;
  unlock_owned(&before);
  return left;
}

void linux_disown_program(int pid) {
  sigset_t before;
  lock_owned(&before);
  for (int i = 0; i < owned.count; i++)
    if (owned.all[i].pid == pid) {
      owned.all[i] = owned.all[--owned.count];
      break;
    }
  unlock_owned(&before);
}

void linux_end_programs(const void *owner) {
  if (owned.process != getpid()) return;
  sigset_t before;
  lock_owned(&before);
  int count = 0;
  struct owned *ending = owned.count ? malloc((size_t)owned.count * sizeof *ending) : NULL;
  for (int i = owned.count - 1; i >= 0 && ending; i--) {
    if (owner && owned.all[i].owner != owner) continue;
    if (!owned.all[i].has_ended || is_left(owned.all[i].pid)) ending[count++] = owned.all[i];
    owned.all[i] = owned.all[--owned.count];
  }
  // Send SIGTERM before signals are unblocked: these programs are no longer in the list, in which the handler of a
  // fatal signal would look for them.
  signal_all(ending, count, SIGTERM);
  unlock_owned(&before);
  for (int waited = 0; count > 0; waited++) {
    // Checking all processes of the machine is expensive, so do it in every twelfth round only.
    for (int i = count - 1; i >= 0; i--) {
      if (waited < 1000 && !is_over(ending[i].pid, waited % 12 == 11)) continue;
      linux_take_terminal_back(ending[i].pid);
      ending[i] = ending[--count];
    }
    // Most programs have ended by now. A killed program ends at once, unless it hangs in the kernel.
    if (waited == 500) signal_all(ending, count, SIGKILL);
    if (count > 0) poll(NULL, 0, 2);
  }
  free(ending);
}

int linux_program_ended(int pid, int *number) {
  int status = 0;
  pid_t found = waitpid(pid, &status, WNOHANG);
  if (found == 0) return 0;
  if (found < 0) return -1;
  *number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return WIFSIGNALED(status) ? 2 : 1;
}

int linux_program_has_stopped(int pid) {
  siginfo_t information = {0};
  return waitid(P_PID, (id_t)pid, &information, WSTOPPED | WNOHANG) == 0 && information.si_pid == pid;
}

int linux_make_pipe(int ends[2], int two_way) {
  if (two_way ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) return -1;
  ends[0] = linux_lift(ends[0]);
  ends[1] = linux_lift(ends[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return 0;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  errno = EMFILE;
  return -1;
}
