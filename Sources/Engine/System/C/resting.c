// Finds out whether programs and threads work or wait for this process. /proc shows the system call in which a thread
// sleeps, and its arguments.
#define _GNU_SOURCE
#include "resting.h"

#include "children.h"
#include "descriptors.h"
#include "family.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The threads of programs ---------------------------------------------------------------------------------------------

enum { WORKS, READS, WAITS };

typedef struct {
  int process, thread, kind, reads;  // reads: the descriptor that it reads
  long switches;
  long call;  // -1: none
} look;

// Gets the system call in which a thread sleeps, and its arguments. Returns 0 if the thread does not sleep in a call.
static int call_of(int process, int thread, long *call, unsigned long arguments[6]) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", process, thread);
  if (linux_read_file(path, text, sizeof text) <= 0) return 0;
  return sscanf(text, "%ld 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx", call, &arguments[0], &arguments[1], &arguments[2],
                &arguments[3], &arguments[4], &arguments[5]) == 7 &&
         *call >= 0;
}

// Returns the kind of a system call: READS and WAITS end only when another thread or process acts.
static int kind_of(long call, const unsigned long arguments[6]) {
  switch (call) {
    case SYS_read:
    case SYS_readv: return READS;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend: return WAITS;
#ifdef SYS_pause
    case SYS_pause: return WAITS;
#endif
    case SYS_futex: {
      enum { COMMAND = 0x7f, WAIT = 0, WAIT_BITSET = 9 };
      unsigned long command = arguments[1] & COMMAND;
      return (command == WAIT || command == WAIT_BITSET) && arguments[3] == 0 ? WAITS : WORKS;
    }
    default: return WORKS;
  }
}

// Reads a thread's state. `switches` changes whenever the thread has run. Returns 0 if there is no such thread.
static int state_of_thread(int process, int thread, char *state, long *switches, int *has_alarm) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/%d/task/%d/status", process, thread);
  if (linux_read_file(path, text, sizeof text) <= 0) return 0;
  char *at = strstr(text, "\nState:"), *own = strstr(text, "\nvoluntary_ctxt_switches:");
  char *forced = strstr(text, "\nnonvoluntary_ctxt_switches:"), *caught = strstr(text, "\nSigCgt:");
  if (!at || !own || !forced || sscanf(at + 7, " %c", state) != 1) return 0;
  *switches = strtol(own + 25, NULL, 10) + strtol(forced + 28, NULL, 10);
  // A timer of the program may end the call, and /proc does not show whether one runs.
  *has_alarm = caught && strtoull(caught + 8, NULL, 16) >> (SIGALRM - 1) & 1;
  return 1;
}

static look look_at(int process, int thread) {
  look it = {.process = process, .thread = thread, .call = -1};
  unsigned long arguments[6];
  char state = 0;
  int has_alarm = 0;
  if (!state_of_thread(process, thread, &state, &it.switches, &has_alarm)) return it;
  if (!call_of(process, thread, &it.call, arguments)) return it.call = -1, it;
  // In this process the handler for SIGALRM is the test runner's, so `has_alarm` says nothing.
  if (state != 'S' || has_alarm && process != getpid()) return it;
  it.kind = kind_of(it.call, arguments);
  it.reads = (int)arguments[0];
  return it;
}

// An end of a pipe among the descriptors of a program or of this process.
typedef struct {
  dev_t device;
  ino_t number;
  int writes;
} end_of_pipe;

enum { MOST_THREADS = 256, MOST_PROCESSES = 256, MOST_ENDS = 1024 };

static struct {
  pthread_mutex_t lock;
  int all_rest;
  int processes[MOST_PROCESSES], process_count;
  int servers;  // the number of servers that were skipped
  look looks[MOST_THREADS];
  int look_count;
  end_of_pipe ends[MOST_ENDS];
  int end_count;
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Notes the ends of pipes that a process has open.
static void note_ends(int process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", process);
  DIR *directory = opendir(path);
  struct dirent *entry;
  struct stat status, link;
  while (directory && (entry = readdir(directory)) && found.end_count < MOST_ENDS) {
    if (entry->d_name[0] == '.' || fstatat(dirfd(directory), entry->d_name, &status, 0)) continue;
    if (!S_ISFIFO(status.st_mode) || fstatat(dirfd(directory), entry->d_name, &link, AT_SYMLINK_NOFOLLOW)) continue;
    found.ends[found.end_count++] =
        (end_of_pipe){.device = status.st_dev, .number = status.st_ino, .writes = (link.st_mode & S_IWUSR) != 0};
  }
  if (directory) closedir(directory);
}

// Returns whether a noted process can write to the pipe that a thread reads. Returns 0 for a terminal: the kernel wakes
// a terminal's reader only some time after a key was typed, so a sleeping reader may already have work.
static int is_fed(const look *it) {
  char path[64];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", it->process, it->reads);
  if (stat(path, &status) || !S_ISFIFO(status.st_mode)) return 0;
  for (int i = 0; i < found.end_count; i++)
    if (found.ends[i].writes && found.ends[i].device == status.st_dev && found.ends[i].number == status.st_ino)
      return 1;
  return 0;
}

// The servers of tests, which run in real time and do not stop the clock; guarded by `found.lock`.
enum { MOST_SERVERS = 64 };
static int servers[MOST_SERVERS];

static int *place_of_server(int process) {
  for (int i = 0; i < MOST_SERVERS; i++)
    if (servers[i] == process) return &servers[i];
  return NULL;
}

int linux_note_server(int process, int is_server) {
  pthread_mutex_lock(&found.lock);
  int *place = place_of_server(process);
  if (!place && is_server) place = place_of_server(0);
  if (place) *place = is_server ? process : 0;
  pthread_mutex_unlock(&found.lock);
  return place != NULL || !is_server;
}

static void add_process(int process, int skips_family) {
  if (place_of_server(process)) {
    found.servers++;
    return;
  }
  if (found.process_count == MOST_PROCESSES || skips_family && linux_is_family(process)) return;
  if (!linux_process_runs(process)) return;
  for (int i = 0; i < found.process_count; i++)
    if (found.processes[i] == process) return;
  found.processes[found.process_count++] = process;
}

// Adds all processes that the processes have started, and the threads of all. Returns 0 if there are too many.
static int gather(void) {
  int children[512];
  found.look_count = found.end_count = 0;
  for (int i = 0; i < found.process_count; i++) {
    int count = linux_children_of(found.processes[i], children, 512);
    for (int k = 0; k < count; k++) add_process(children[k], 1);
    if (found.process_count == MOST_PROCESSES) return 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", found.processes[i]);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
      if (entry->d_name[0] == '.') continue;
      if (found.look_count < MOST_THREADS)
        found.looks[found.look_count++] = look_at(found.processes[i], atoi(entry->d_name));
    }
    if (tasks) closedir(tasks);
  }
  return found.look_count < MOST_THREADS;
}

// Returns whether all gathered threads rest. Each thread is checked twice: if no thread has run in between, all rested
// at the same moment.
static int all_rest(void) {
  for (int i = 0; i < found.look_count; i++)
    if (found.looks[i].kind == WORKS) return 0;
  note_ends(getpid());
  for (int i = 0; i < found.process_count; i++) note_ends(found.processes[i]);
  for (int i = 0; i < found.look_count; i++)
    if (found.looks[i].kind == READS && !is_fed(&found.looks[i])) return 0;
  for (int i = 0; i < found.look_count; i++) {
    const look *it = &found.looks[i];
    char state = 0;
    long switches = 0;
    int has_alarm = 0;
    if (!state_of_thread(it->process, it->thread, &state, &switches, &has_alarm)) return 0;
    if (state != 'S' || switches != it->switches) return 0;
  }
  return 1;
}

// Processes that share the simulated time report their own rest, so skip them.
static int programs_rest(void) {
  int all[MOST_PROCESSES], count = linux_programs(all, MOST_PROCESSES);
  found.process_count = found.look_count = found.end_count = found.servers = 0;
  for (int i = 0; i < count; i++) add_process(all[i], 1);
  if (found.process_count == 0) return 1;
  return gather() && all_rest();
}

int linux_process_rests(int process) {
  pthread_mutex_lock(&found.lock);
  found.process_count = 0;
  found.all_rest = 0;
  add_process(process, 0);
  int rests = found.process_count > 0 && gather() && all_rest();
  pthread_mutex_unlock(&found.lock);
  return rests;
}

// The resources that ended children had used when the last check found no child. While these numbers are unchanged, no
// other child has run.
static struct rusage clean;
static int was_clean;

// Returns whether no program can have run since `clean` was set. Sets whether there are children, whether one of them
// has ended, and the resources that they have used.
static int is_still_clean(int *has_children, int *has_dead, struct rusage *used) {
  siginfo_t info = {0};
  *has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  *has_dead = info.si_pid != 0;
  getrusage(RUSAGE_CHILDREN, used);
  return !*has_children && was_clean && memcmp(used, &clean, sizeof *used) == 0;
}

static int some_programs_work(void) {
  struct rusage used;
  int has_children, has_dead;
  found.all_rest = 0;
  if (is_still_clean(&has_children, &has_dead, &used)) return 0;
  // Without /proc no child is found.
  int rest = programs_rest();
  if (!rest) return 1;
  if (found.process_count + found.servers == 0 && has_children && !has_dead && !linux_has_family()) return 1;
  found.all_rest = found.process_count > 0;
  struct sigaction action;
  // If SIGCHLD is ignored, the kernel does not add the resources of ended children to `used`.
  was_clean =
      !found.all_rest && !has_children && sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler != SIG_IGN;
  clean = used;
  return 0;
}

int linux_programs_work(void) {
  pthread_mutex_lock(&found.lock);
  int work = some_programs_work();
  pthread_mutex_unlock(&found.lock);
  return work;
}

int linux_programs_run(void) {
  struct rusage used;
  int has_children, has_dead, one;
  pthread_mutex_lock(&found.lock);
  int run = !is_still_clean(&has_children, &has_dead, &used) && linux_programs(&one, 1) > 0;
  pthread_mutex_unlock(&found.lock);
  return run;
}

int linux_all_programs_rest(void) {
  pthread_mutex_lock(&found.lock);
  int rest = found.all_rest;
  pthread_mutex_unlock(&found.lock);
  return rest;
}

int linux_is_pipe_of_programs(dev_t device, ino_t number) {
  pthread_mutex_lock(&found.lock);
  int is = 0;
  for (int i = 0; found.all_rest && i < found.end_count && !is; i++)
    is = found.ends[i].device == device && found.ends[i].number == number;
  pthread_mutex_unlock(&found.lock);
  return is;
}

// Texts for reports ---------------------------------------------------------------------------------------------------

#define CALL(name) \
  { SYS_##name, #name }
static const struct {
  long number;
  const char *name;
} calls[] = {
    CALL(read),        CALL(readv),         CALL(write),           CALL(writev),   CALL(ppoll),   CALL(pselect6),
    CALL(epoll_pwait), CALL(nanosleep),     CALL(clock_nanosleep), CALL(futex),    CALL(wait4),   CALL(waitid),
    CALL(connect),     CALL(accept),        CALL(accept4),         CALL(recvfrom), CALL(recvmsg), CALL(sendto),
    CALL(sendmsg),     CALL(rt_sigsuspend), CALL(rt_sigtimedwait), CALL(flock),    CALL(fcntl),   CALL(fsync),
    CALL(openat),
#ifdef SYS_poll
    CALL(poll),        CALL(select),        CALL(epoll_wait),      CALL(pause),    CALL(open),
#endif
};

static void describe_call(int process, long call, const unsigned long arguments[6], char *text, size_t size) {
  char path[64], target[200] = "";
  const char *name = NULL;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i].number == call) name = calls[i].name;
  int length = name ? snprintf(text, size, "%s", name) : snprintf(text, size, "system call %ld", call);
  if (call != SYS_read && call != SYS_readv && call != SYS_write && call != SYS_recvfrom) return;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, (int)arguments[0]);
  ssize_t count = readlink(path, target, sizeof target - 1);
  if (count > 0 && length < (int)size) snprintf(text + length, size - (size_t)length, " of %s", target);
}

// Gets the command line of a process, as ps(1) shows it.
static void words_of(int process, char text[80]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/cmdline", process);
  ssize_t length = linux_read_file(path, text, 80);
  while (length > 0 && !text[length - 1]) length--;
  for (ssize_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < 32) text[i] = ' ';
}

void linux_working_programs(void *context, void (*each)(void *context, const char *line)) {
  pthread_mutex_lock(&found.lock);
  int all[MOST_PROCESSES], count = linux_programs(all, MOST_PROCESSES);
  found.process_count = found.end_count = 0;
  found.all_rest = 0;
  for (int i = 0; i < count; i++) add_process(all[i], 0);
  gather();
  note_ends(getpid());
  for (int i = 0; i < found.process_count; i++) note_ends(found.processes[i]);
  for (int i = 0; i < found.look_count; i++) {
    const look *it = &found.looks[i];
    if (it->kind == WAITS || it->kind == READS && is_fed(it)) continue;
    char words[80], call[280], line[400];
    long number;
    unsigned long arguments[6];
    words_of(it->process, words);
    *call = 0;
    if (call_of(it->process, it->thread, &number, arguments))
      describe_call(it->process, number, arguments, call, sizeof call);
    snprintf(line, sizeof line, "process %d (%s) %s%s", it->process, words, *call ? "is in " : "computes", call);
    each(context, line);
  }
  pthread_mutex_unlock(&found.lock);
}

// Threads of this process ---------------------------------------------------------------------------------------------

int linux_thread_rests(int thread, long *switches) {
  char state = 0;
  int has_alarm;
  if (!state_of_thread(getpid(), thread, &state, switches, &has_alarm)) return -1;
  return state == 'S' || state == 'D';
}

void linux_call_of_thread(int thread, char *text, int size) {
  long call;
  unsigned long arguments[6];
  *text = 0;
  if (call_of(getpid(), thread, &call, arguments)) describe_call(getpid(), call, arguments, text, (size_t)size);
}

int linux_read_by_thread(int thread) {
  look it = look_at(getpid(), thread);
  return it.kind == READS ? it.reads : -1;
}

static _Atomic int counted = 1;

void linux_count_thread(int difference) { counted += difference; }

int linux_uncounted_threads(void) {
  struct stat status;
  // The link count of a directory is two, plus one for each subdirectory; here each thread has a subdirectory.
  return stat("/proc/self/task", &status) ? 0 : (int)status.st_nlink - 2 - counted;
}
