// Whether anything outside of this process may still bring something to it: programs that it has started, and descriptors
// whose other ends are not its own.
#define _GNU_SOURCE
#include "CLinux.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>

// Programs -------------------------------------------------------------------------------------------------------------

static ssize_t read_file(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t count = read(fd, text, size - 1);
  close(fd);
  text[count > 0 ? count : 0] = 0;
  return count;
}

// A process's state, as in ps(1), and its parent; 0 if there is none.
static char state_of(int pid, int *parent) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (read_file(path, text, sizeof text) <= 0) return 0;
  char *rest = strrchr(text, ')');
  char state = 0;
  if (!rest || sscanf(rest + 1, " %c %d", &state, parent) != 2) return 0;
  return state;
}

static int runs(int pid) {
  int parent = 0;
  char state = state_of(pid, &parent);
  return state && state != 'Z' && state != 'X';
}

// The processes, alive or not yet waited for, that one has begun, or inherited from others.
int linux_children_of(int pid, int *found, int most) {
  char path[64], text[16384];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  if (!tasks) return 0;
  struct dirent *entry;
  int is_known = 0;
  while ((entry = readdir(tasks))) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.12s/children", pid, entry->d_name);
    if (read_file(path, text, sizeof text) < 0) continue;
    is_known = 1;
    char *at = text, *end;
    for (long number; (number = strtol(at, &end, 10)) > 0 && end != at; at = end)
      if (count < most) found[count++] = (int)number;
  }
  closedir(tasks);
  if (is_known) return count;
  // A kernel without that file: everybody is asked for their parent.
  DIR *all = opendir("/proc");
  if (!all) return 0;
  while ((entry = readdir(all))) {
    int number = atoi(entry->d_name), parent = 0;
    if (number > 0 && state_of(number, &parent) && parent == pid && count < most) found[count++] = number;
  }
  closedir(all);
  return count;
}

static int keeper;

void linux_set_keeper(int process) { keeper = process; }


int linux_programs(int *found, int most) {
  int all[1024], count = 0;
  int total = linux_children_of(getpid(), all, 512);
  if (keeper) total += linux_children_of(keeper, all + total, 1024 - total);
  for (int i = 0; i < total; i++)
    if (all[i] != getpid() && runs(all[i]) && count < most) found[count++] = all[i];
  return count;
}

// Those that live in this process's time tell themselves what may happen to them.
static int some_strangers_run(void) {
  int found[1024], count = linux_programs(found, 1024);
  for (int i = 0; i < count; i++)
    if (!linux_is_family(found[i])) return 1;
  return 0;
}

int linux_programs_run(void) {
  // What children that were waited for have used: unchanged, there were no more of them, and none has left any behind.
  static struct rusage clean;
  static int was_clean;
  siginfo_t info = {0};
  if (linux_has_family()) return some_strangers_run();
  int has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (has_children && info.si_pid == 0) return 1;
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  if (!has_children && was_clean && memcmp(&used, &clean, sizeof used) == 0) return 0;
  int one;
  int some = linux_programs(&one, 1) > 0;
  struct sigaction action;
  // Children that nobody has to wait for leave no trace.
  was_clean = !some && !has_children && sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler != SIG_IGN;
  clean = used;
  return some;
}

int linux_thread_rests(int thread, long *switches) {
  char path[64], text[2048], state = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
  if (read_file(path, text, sizeof text) <= 0) return -1;
  char *at = strstr(text, "\nState:"), *count = strstr(text, "\nvoluntary_ctxt_switches:");
  if (!at || !count || sscanf(at + 7, " %c", &state) != 1) return -1;
  *switches = strtol(count + 25, NULL, 10);
  return state == 'S' || state == 'D';
}

// Descriptors ----------------------------------------------------------------------------------------------------------

// One of this process's descriptors, as far as it may be the other end of another one.
typedef struct {
  int fd, is_socket, is_other, domain, type, listens;  // other: a terminal, or the end of a program
  dev_t device;
  ino_t number;
  int writes, reads;                // a pipe's end
  struct sockaddr_in6 own, peer;    // of the internet: as IPv6, port 0 if there is none
} descriptor;

static void normalize(struct sockaddr_storage *from, struct sockaddr_in6 *to) {
  *to = (struct sockaddr_in6){.sin6_family = AF_INET6};
  if (from->ss_family == AF_INET6) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)from;
    to->sin6_addr = six->sin6_addr;
    to->sin6_port = six->sin6_port;
  } else if (from->ss_family == AF_INET) {
    struct sockaddr_in *four = (struct sockaddr_in *)from;
    to->sin6_addr.s6_addr[10] = to->sin6_addr.s6_addr[11] = 0xff;
    memcpy(to->sin6_addr.s6_addr + 12, &four->sin_addr, 4);
    to->sin6_port = four->sin_port;
  }
}

static int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) ? -1 : value;
}

// A pidfd.
static int is_program(int fd) {
  char path[64], target[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, target, sizeof target - 1);
  target[length > 0 ? length : 0] = 0;
  return strstr(target, "pidfd") != NULL;
}

static int describe(int fd, descriptor *it) {
  struct stat status;
  if (fstat(fd, &status)) return 0;
  *it = (descriptor){.fd = fd, .device = status.st_dev, .number = status.st_ino};
  if (S_ISFIFO(status.st_mode)) {
    struct statfs system;
    // One with a name may have been opened by anybody.
    if (fstatfs(fd, &system) || system.f_type != 0x50495045) return 0;
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    it->reads = mode != O_WRONLY;
    it->writes = mode != O_RDONLY;
    return 1;
  }
  if (linux_has_family() && (S_ISCHR(status.st_mode) ? isatty(fd) : is_program(fd))) return it->is_other = 1;
  if (!S_ISSOCK(status.st_mode)) return 0;
  it->is_socket = 1;
  it->domain = option(fd, SO_DOMAIN);
  it->type = option(fd, SO_TYPE);
  it->listens = option(fd, SO_ACCEPTCONN) == 1;
  if (it->domain == AF_INET || it->domain == AF_INET6) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) == 0) normalize(&address, &it->own);
    size = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &size) == 0) normalize(&address, &it->peer);
  }
  return 1;
}

static int same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b) {
  return a->sin6_port == b->sin6_port && memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0;
}

// Every address of this machine's.
static int is_any(const struct sockaddr_in6 *a) {
  static const unsigned char zero[16], mapped[16] = {[10] = 0xff, [11] = 0xff};
  return memcmp(&a->sin6_addr, zero, 16) == 0 || memcmp(&a->sin6_addr, mapped, 16) == 0;
}

static int is_loopback(const struct sockaddr_in6 *a) {
  static const unsigned char one[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, [11] = 0xff};
  const unsigned char *bytes = a->sin6_addr.s6_addr;
  return memcmp(bytes, one, 16) == 0 || memcmp(bytes, mapped, 12) == 0 && bytes[12] == 127;
}

// Whether something that one end has sent has not reached the other one.
static int is_on_the_way(int from, int to) {
  struct tcp_info sender = {0}, receiver = {0};
  socklen_t size = sizeof sender;
  if (getsockopt(from, IPPROTO_TCP, TCP_INFO, &sender, &size)) return 0;
  size = sizeof receiver;
  if (getsockopt(to, IPPROTO_TCP, TCP_INFO, &receiver, &size)) return 0;
  // Full: nothing moves until somebody reads there.
  if (linux_bytes_to_read(to) > 0) return 0;
  enum { ESTABLISHED = 1, FIN_WAIT = 4 };
  if (sender.tcpi_state == FIN_WAIT && receiver.tcpi_state == ESTABLISHED) return 1;
  return sender.tcpi_notsent_bytes > 0 ||
         sender.tcpi_bytes_sent - sender.tcpi_bytes_retrans > receiver.tcpi_bytes_received;
}

static int is_outside(const descriptor *it, const descriptor *all, int count) {
  // At the other end are those who live in the same time; or programs, and these run.
  if (!it->is_socket && linux_has_family()) return LINUX_INSIDE;
  if (!it->is_socket) {
    for (int i = 0; i < count; i++)
      if (!all[i].is_socket && all[i].fd != it->fd && all[i].number == it->number && all[i].device == it->device &&
          (it->reads ? all[i].writes : all[i].reads))
        return LINUX_INSIDE;
    return LINUX_OUTSIDE;
  }
  if (it->listens) return LINUX_LISTENS;
  if (it->domain == AF_UNIX) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    return getsockopt(it->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                   (peer.pid == getpid() || linux_is_family(peer.pid))
               ? LINUX_INSIDE
               : LINUX_OUTSIDE;
  }
  if (it->peer.sin6_port == 0) return LINUX_OUTSIDE;
  for (int i = 0; i < count; i++) {
    const descriptor *other = &all[i];
    if (!other->is_socket || other->fd == it->fd || other->type != it->type || !same(&other->own, &it->peer) ||
        !same(&other->peer, &it->own))
      continue;
    if (it->type != SOCK_STREAM) return LINUX_INSIDE;
    return is_on_the_way(other->fd, it->fd) || is_on_the_way(it->fd, other->fd) ? LINUX_ON_THE_WAY : LINUX_INSIDE;
  }
  // Nobody has accepted it yet.
  for (int i = 0; i < count; i++)
    if (all[i].listens && all[i].own.sin6_port == it->peer.sin6_port &&
        (same(&all[i].own, &it->peer) ||
         is_any(&all[i].own) && (is_loopback(&it->peer) || memcmp(&it->own.sin6_addr, &it->peer.sin6_addr, 16) == 0)))
      return LINUX_INSIDE;
  if (linux_has_family() && it->type == SOCK_STREAM) return linux_family_surroundings(&it->own, &it->peer);
  return LINUX_OUTSIDE;
}

int linux_surroundings(const int *watched, int count) {
  int worst = LINUX_INSIDE, known = 0, capacity = 0;
  descriptor *all = NULL, own;
  for (int i = 0; i < count && worst < LINUX_OUTSIDE; i++) {
    int found = LINUX_OUTSIDE;
    if (describe(watched[i], &own)) {
      // The others matter only for these, and are looked at once.
      if (!all && (!own.is_socket || own.domain == AF_INET || own.domain == AF_INET6)) {
        DIR *directory = opendir("/proc/self/fd");
        struct dirent *entry;
        while (directory && (entry = readdir(directory))) {
          if (known == capacity) {
            descriptor *larger = realloc(all, sizeof *all * (size_t)(capacity = capacity ? capacity * 2 : 64));
            if (!larger) break;
            all = larger;
          }
          if (entry->d_name[0] != '.' && describe(atoi(entry->d_name), &all[known])) known++;
        }
        if (directory) closedir(directory);
      }
      found = is_outside(&own, all, known);
    }
    if (found > worst) worst = found;
  }
  free(all);
  return worst;
}
