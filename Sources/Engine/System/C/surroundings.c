// Finds out whether another process or machine may still send data to a descriptor of this process.
#define _GNU_SOURCE
#include "CLinux.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>

// Descriptors ---------------------------------------------------------------------------------------------------------

typedef enum { UNKNOWN, FOREIGN, PIPE, FIFO, LOCAL, INTERNET, LISTENER, SPEAKER, EVENT, SET, PROGRAM, TERMINAL } kind;

// A descriptor of this process. Properties that cannot change are kept until it is closed.
typedef struct {
  kind kind;
  int fd, is_final, type;
  dev_t device;
  ino_t number;
  int writes, reads;  // for the end of a pipe
  int peer_process;   // for a local socket
  int other;          // the descriptor of the connection's other end, as last found; -1 if it is not in this process
  unsigned asked;     // the number of the last query that checked this connection from its other end
  struct sockaddr_in6 own, peer;  // for an internet socket: in the form of IPv6; port 0 if there is none
} descriptor;

// By descriptor number; guarded by `lock`.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static descriptor *known;
static int capacity;

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

static void describe_socket(descriptor *it) {
  int domain = option(it->fd, SO_DOMAIN);
  it->type = option(it->fd, SO_TYPE);
  it->kind = domain == AF_UNIX ? LOCAL : domain == AF_INET || domain == AF_INET6 ? INTERNET : FOREIGN;
  if (option(it->fd, SO_ACCEPTCONN) == 1) it->kind = LISTENER;
  struct sockaddr_storage address = {0};
  socklen_t size = sizeof address;
  if (domain != AF_UNIX && getsockname(it->fd, (struct sockaddr *)&address, &size) == 0) normalize(&address, &it->own);
  size = sizeof address;
  int has_peer = getpeername(it->fd, (struct sockaddr *)&address, &size) == 0;
  if (domain != AF_UNIX && has_peer) normalize(&address, &it->peer);
  struct ucred peer = {0};
  size = sizeof peer;
  if (domain == AF_UNIX && getsockopt(it->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) it->peer_process = peer.pid;
  it->is_final = it->type != SOCK_DGRAM && (it->kind == LISTENER || has_peer);
}

// Anonymous descriptors share one inode, so their kinds are read from their names in /proc.
static kind anonymous_kind(int fd) {
  char path[64], target[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, target, sizeof target - 1);
  target[length > 0 ? length : 0] = 0;
  if (strstr(target, "pidfd")) return PROGRAM;
  // Only this process writes to an eventfd, for example in a signal handler.
  if (strstr(target, "eventfd")) return EVENT;
  if (strstr(target, "eventpoll")) return SET;
  return strstr(target, "signalfd") || strstr(target, "notify") ? SPEAKER : FOREIGN;
}

// Returns the properties of an open descriptor; NULL if it is not open or there is no memory.
static descriptor *describe(int fd) {
  struct stat status;
  if (fd < 0 || fstat(fd, &status)) return NULL;
  if (fd >= capacity) {
    int wanted = fd < 64 ? 128 : fd * 2;
    descriptor *larger = realloc(known, sizeof *known * (size_t)wanted);
    if (!larger) return NULL;
    memset(larger + capacity, 0, sizeof *known * (size_t)(wanted - capacity));
    known = larger;
    capacity = wanted;
  }
  descriptor *it = &known[fd];
  if (it->is_final && it->device == status.st_dev && it->number == status.st_ino) return it;
  *it = (descriptor){.kind = FOREIGN, .fd = fd, .device = status.st_dev, .number = status.st_ino, .other = -1};
  if (S_ISFIFO(status.st_mode)) {
    struct statfs system;
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    it->reads = mode != O_WRONLY;
    it->writes = mode != O_RDONLY;
    // Any process may open a FIFO with a name.
    it->kind = fstatfs(fd, &system) == 0 && system.f_type == 0x50495045 ? PIPE : FIFO;
    it->is_final = 1;
  } else if (S_ISSOCK(status.st_mode)) {
    describe_socket(it);
  } else if (S_ISCHR(status.st_mode)) {
    it->kind = isatty(fd) ? TERMINAL : FOREIGN;
  } else if (!S_ISDIR(status.st_mode)) {
    it->kind = anonymous_kind(fd);
  }
  return it;
}

static int same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b) {
  return a->sin6_port == b->sin6_port && memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0;
}

// Returns whether the address stands for all addresses of this machine.
static int is_any(const struct sockaddr_in6 *a) {
  static const unsigned char zero[16], mapped[16] = {[10] = 0xff, [11] = 0xff};
  return memcmp(&a->sin6_addr, zero, 16) == 0 || memcmp(&a->sin6_addr, mapped, 16) == 0;
}

static int is_loopback(const struct sockaddr_in6 *a) {
  static const unsigned char one[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, [11] = 0xff};
  const unsigned char *bytes = a->sin6_addr.s6_addr;
  return memcmp(bytes, one, 16) == 0 || memcmp(bytes, mapped, 12) == 0 && bytes[12] == 127;
}

// Other ends ----------------------------------------------------------------------------------------------------------

// Returns whether one descriptor of this process is the other end of another.
static int is_other_end(const descriptor *it, const descriptor *other) {
  if (other->fd == it->fd || other->kind != it->kind) return 0;
  if (it->kind == INTERNET)
    return other->type == it->type && same(&other->own, &it->peer) && same(&other->peer, &it->own);
  return other->number == it->number && other->device == it->device && (it->reads ? other->writes : other->reads);
}

// Returns whether the socket `other` listens at the address to which `it` is connected.
static int is_listener_of(const descriptor *it, const descriptor *other) {
  return other->kind == LISTENER && other->own.sin6_port == it->peer.sin6_port &&
         (same(&other->own, &it->peer) ||
          is_any(&other->own) && (is_loopback(&it->peer) || memcmp(&it->own.sin6_addr, &it->peer.sin6_addr, 16) == 0));
}

// All open descriptors that can be described. The descriptors are listed at most once for each query.
static struct {
  int *fds, count;
  int is_there;
} all;

static void list_all(void) {
  if (all.is_there) return;
  all.is_there = 1;
  free(all.fds);
  int count = linux_list_descriptors(&all.fds);
  all.count = 0;
  for (int i = 0; i < count; i++)
    if (describe(all.fds[i])) all.fds[all.count++] = all.fds[i];
}

// Returns the other end of a descriptor if it is in this process, else NULL. Sets `is_expected` if this process has not
// accepted the connection yet.
static descriptor *other_end(int fd, int *is_expected) {
  descriptor *it = &known[fd];
  *is_expected = 0;
  // While this end is connected, the other end is open: in this process under the number found before, or in a program.
  // The caller checks programs separately.
  if (it->other >= 0 && is_other_end(it, &known[it->other])) return &known[it->other];
  list_all();
  // Listing the descriptors may have reallocated the table.
  it = &known[fd];
  it->other = -1;
  for (int i = 0; i < all.count; i++) {
    if (!is_other_end(it, &known[all.fds[i]])) continue;
    it->other = all.fds[i];
    return &known[it->other];
  }
  for (int i = 0; it->kind == INTERNET && i < all.count && !*is_expected; i++)
    *is_expected = is_listener_of(it, &known[all.fds[i]]);
  return NULL;
}

// Returns the number of bytes that were sent and not acknowledged; the end of the data counts as one byte.
static int unacknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) ? 0 : bytes;
}

// Returns whether data from one end has not reached the other one.
static int is_on_the_way(int from, int to) {
  if (unacknowledged(from) == 0) return 0;
  struct tcp_info sender = {0}, receiver = {0};
  socklen_t size = sizeof sender;
  if (getsockopt(from, IPPROTO_TCP, TCP_INFO, &sender, &size)) return 0;
  size = sizeof receiver;
  if (getsockopt(to, IPPROTO_TCP, TCP_INFO, &receiver, &size)) return 0;
  // If the receiver has data to read, its buffer may be full, so that nothing moves until it reads.
  if (linux_bytes_to_read(to) > 0) return 0;
  enum { ESTABLISHED = 1, FIN_WAIT = 4 };
  if (sender.tcpi_state == FIN_WAIT && receiver.tcpi_state == ESTABLISHED) return 1;
  return sender.tcpi_notsent_bytes > 0 ||
         sender.tcpi_bytes_sent - sender.tcpi_bytes_retrans > receiver.tcpi_bytes_received;
}

// The question --------------------------------------------------------------------------------------------------------

static int around_pipe(int fd) {
  int is_expected;
  if (linux_has_family()) return LINUX_INSIDE;
  int is_here = other_end(fd, &is_expected) != NULL;
  const descriptor *it = &known[fd];
  if (is_here) return it->kind == FIFO ? LINUX_LISTENS : LINUX_INSIDE;
  return linux_is_pipe_of_programs(it->device, it->number) ? LINUX_INSIDE : LINUX_OUTSIDE;
}

static unsigned question;

static int around_connection(int fd) {
  int is_expected;
  if (known[fd].peer.sin6_port == 0) return LINUX_OUTSIDE;
  const descriptor *other = other_end(fd, &is_expected);
  const descriptor *it = &known[fd];
  if (is_expected) return LINUX_INSIDE;
  if (!other) {
    if (!linux_has_family() || it->type != SOCK_STREAM) return LINUX_OUTSIDE;
    return linux_family_surroundings(it->fd, &it->own, &it->peer);
  }
  if (it->type != SOCK_STREAM) return LINUX_INSIDE;
  known[other->fd].asked = question;
  return is_on_the_way(other->fd, fd) || is_on_the_way(fd, other->fd) ? LINUX_ON_THE_WAY : LINUX_INSIDE;
}

enum { DEEPEST = 4 };
static int around(int fd, int depth);

// Returns the largest result of `around` for the descriptors that an epoll instance watches.
static int around_set(int fd, int depth) {
  char path[64], text[16384];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  ssize_t length = linux_read_file(path, text, sizeof text);
  if (length <= 0 || length == sizeof text - 1 || depth == DEEPEST) return LINUX_OUTSIDE;
  int worst = LINUX_INSIDE;
  for (const char *at = strstr(text, "tfd:"); at && worst < LINUX_OUTSIDE; at = strstr(at + 4, "tfd:")) {
    int found = around(atoi(at + 4), depth + 1);
    if (found > worst) worst = found;
  }
  return worst;
}

// Whether the current query has found a descriptor whose other end a thread of this process can write to.
static int has_open_ends;

// Returns the most distant source of the events that can make a descriptor ready, as linux_surroundings does. The other
// end of the descriptor is open.
static int around(int fd, int depth) {
  // Check this first: the same query may have checked the connection from its other end already.
  if (fd >= 0 && fd < capacity && known[fd].kind == INTERNET && known[fd].asked == question) return LINUX_INSIDE;
  const descriptor *it = describe(fd);
  if (!it) return LINUX_OUTSIDE;
  switch (it->kind) {
    case SET: return around_set(fd, depth);
    case LISTENER:
    case SPEAKER: return LINUX_LISTENS;
    case EVENT: has_open_ends = 1; return LINUX_LISTENS;
    case PIPE:
    case FIFO: has_open_ends = 1; return around_pipe(fd);
    case LOCAL:
      has_open_ends = 1;
      return it->peer_process == getpid() || linux_is_family(it->peer_process) ? LINUX_INSIDE : LINUX_OUTSIDE;
    case INTERNET: return around_connection(fd);
    // A pidfd. `linux_programs_work` checks separately whether programs work.
    case PROGRAM: return linux_has_family() || linux_all_programs_rest() ? LINUX_INSIDE : LINUX_OUTSIDE;
    case TERMINAL: return linux_has_family() ? LINUX_INSIDE : LINUX_OUTSIDE;
    default: return LINUX_OUTSIDE;
  }
}

// A thread of a C module may write to pipes of this process at any time. The count of this library's own threads
// changes a moment after a thread begins or ends, so wait 2 ms before deciding.
static int around_threads(void) {
  enum { MOMENT = 2000000 };
  static int64_t since;
  if (linux_uncounted_threads() <= 0) return since = 0, LINUX_INSIDE;
  int64_t now = linux_monotonic_now();
  if (since == 0) since = now;
  return now - since < MOMENT ? LINUX_ON_THE_WAY : LINUX_OUTSIDE;
}

// Returns whether nothing more can arrive, because the other end or the kernel has closed the connection. The
// connection may still have data to send.
static int is_over(int fd, short events) {
  if (events & (POLLHUP | POLLNVAL)) return 1;
  const descriptor *it = events & POLLRDHUP ? describe(fd) : NULL;
  return it && (it->kind == LOCAL ? (events & POLLOUT) != 0 : it->kind == INTERNET && unacknowledged(fd) == 0);
}

static int surroundings(struct pollfd *polled, int count) {
  int worst = LINUX_INSIDE;
  all.is_there = has_open_ends = 0;
  question++;
  poll(polled, (nfds_t)count, 0);
  for (int i = 0; i < count && worst < LINUX_OUTSIDE; i++) {
    int fd = polled[i].fd;
    if (is_over(fd, polled[i].revents)) continue;
    int found = around(fd, 0);
    if (found > worst) worst = found;
  }
  if (has_open_ends && worst < LINUX_OUTSIDE) {
    int threads = around_threads();
    if (threads > worst) worst = threads;
  }
  return worst;
}

int linux_surroundings(const int *watched, int count) {
  struct pollfd few[64], *polled = count <= 64 ? few : malloc(sizeof *polled * (size_t)count);
  if (!polled) return LINUX_OUTSIDE;
  for (int i = 0; i < count; i++) polled[i] = (struct pollfd){.fd = watched[i], .events = POLLRDHUP | POLLOUT};
  pthread_mutex_lock(&lock);
  int worst = surroundings(polled, count);
  pthread_mutex_unlock(&lock);
  if (polled != few) free(polled);
  return worst;
}
