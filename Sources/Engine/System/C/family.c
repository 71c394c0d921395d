#define _GNU_SOURCE
#include "family.h"

#include "descriptors.h"
#include "connections.h"
#include "surroundings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 64 };

struct linux_family_page {
  _Atomic uint32_t sequence;  // odd while the time is being changed
  _Atomic int32_t count;
  _Atomic int32_t processes[MOST];
  _Atomic int64_t time, unseen, flows_since, grain;
  _Atomic double wall_clock;
};

// The page of this process, made or joined once.
static linux_family_page *_Atomic own;

linux_family_page *linux_make_family(int *descriptor) {
  int fd = memfd_create("rlhost clock", MFD_CLOEXEC);
  if (fd < 0) return NULL;
  linux_family_page *page = MAP_FAILED;
  if (ftruncate(fd, sizeof *page) == 0) page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return linux_give_up(fd), NULL;
  page->flows_since = -1;
  page->grain = 1;
  *descriptor = fd;
  own = page;
  return page;
}

linux_family_page *linux_join_family(int process, int descriptor) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  linux_family_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
  linux_give_up(fd);
  if (page == MAP_FAILED) return NULL;
  own = page;
  return page;
}

void linux_set_shared_time(linux_family_page *page, const linux_shared_time *time) {
  page->sequence++;
  page->time = time->time;
  page->unseen = time->unseen;
  page->flows_since = time->flows_since;
  page->grain = time->grain;
  page->wall_clock = time->wall_clock;
  page->sequence++;
}

void linux_get_shared_time(const linux_family_page *page, linux_shared_time *time) {
  uint32_t before;
  do {
    while ((before = page->sequence) & 1) {}
    *time = (linux_shared_time){page->time, page->unseen, page->flows_since, page->grain, page->wall_clock};
  } while (page->sequence != before);
}

void linux_set_family(linux_family_page *page, const int *processes, int count) {
  if (count > MOST) count = MOST;
  page->count = 0;
  for (int i = 0; i < count; i++) page->processes[i] = processes[i];
  page->count = count;
}

int linux_is_family(int process) {
  const linux_family_page *page = own;
  for (int i = 0; page && i < page->count; i++)
    if (page->processes[i] == process) return 1;
  return 0;
}

int linux_has_family(void) {
  const linux_family_page *page = own;
  return page && page->count > 0;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  size_t length = strlen(name);
  if (length > sizeof address->sun_path - 1) length = sizeof address->sun_path - 1;
  memcpy(address->sun_path + 1, name, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int linux_listen_to_family(const char *name) {
  struct sockaddr_un address;
  socklen_t size = address_of(name, &address);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, size) || listen(fd, MOST))) return linux_give_up(fd);
  return fd;
}

int linux_accept_family(int listener, int *process) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return -1;
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()) {
      *process = peer.pid;
      return fd;
    }
    // Processes of any user can connect to an abstract name.
    close(fd);
  }
}

int linux_connect_family(const char *name) {
  struct sockaddr_un address;
  socklen_t size = address_of(name, &address);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && (connect(fd, (struct sockaddr *)&address, size) || fcntl(fd, F_SETFL, O_NONBLOCK)))
    return linux_give_up(fd);
  return fd;
}

int linux_send_family(int descriptor, const linux_family_word *word) {
  ssize_t count;
  do count = send(descriptor, word, sizeof *word, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (count < 0 && errno == EINTR);
  return count >= 0 ? 1 : errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
}

int linux_receive_family(int descriptor, linux_family_word *word) {
  ssize_t count;
  do count = recv(descriptor, word, sizeof *word, MSG_DONTWAIT);
  while (count < 0 && errno == EINTR);
  return count == sizeof *word ? 1 : count < 0 && errno == EAGAIN ? 0 : -1;
}

int linux_new_ears(void) { return epoll_create1(EPOLL_CLOEXEC); }

int linux_add_ear(int ears, int descriptor) {
  struct epoll_event event = {.events = EPOLLIN};
  return epoll_ctl(ears, EPOLL_CTL_ADD, descriptor, &event);
}

int linux_process_number(void) { return getpid(); }

// Connections between processes of the family -------------------------------------------------------------------------

// Returns whether a process of the family has a socket open.
static int has_socket(unsigned long inode) {
  const linux_family_page *page = own;
  char wanted[64], path[64], found[64];
  snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
  for (int i = 0; page && i < page->count; i++) {
    snprintf(path, sizeof path, "/proc/%d/fd", page->processes[i]);
    DIR *directory = opendir(path);
    struct dirent *entry;
    int has = 0;
    while (directory && !has && (entry = readdir(directory))) {
      ssize_t length = readlinkat(dirfd(directory), entry->d_name, found, sizeof found - 1);
      if (length <= 0) continue;
      found[length] = 0;
      has = strcmp(found, wanted) == 0;
    }
    if (directory) closedir(directory);
    if (has) return 1;
  }
  return 0;
}

// Reads an address as the kernel prints it: words in the machine's byte order; one word for IPv4.
static void read_address(const char *text, unsigned port, struct sockaddr_in6 *address) {
  *address = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  size_t words = strlen(text) / 8;
  uint32_t parts[4] = {0, 0, htonl(0xffff), 0};
  for (size_t i = 0; i < words && i < 4; i++) {
    char word[9] = {0};
    memcpy(word, text + 8 * i, 8);
    parts[words == 1 ? 3 : i] = (uint32_t)strtoul(word, NULL, 16);
  }
  memcpy(&address->sin6_addr, parts, sizeof parts);
}

static int same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b) {
  return a->sin6_port == b->sin6_port && memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0;
}

// Searches the kernel's list of all connections. The list does not show whether unacknowledged data has arrived
// already.
static int listed_surroundings(const struct sockaddr_in6 *own_address, const struct sockaddr_in6 *peer) {
  static const char *const lists[] = {"/proc/net/tcp", "/proc/net/tcp6"};
  for (int i = 0; i < 2; i++) {
    FILE *list = fopen(lists[i], "re");
    char line[512], local[64], remote[64];
    unsigned local_port, remote_port;
    unsigned long sending, inode;
    while (list && fgets(line, sizeof line, list)) {
      struct sockaddr_in6 a, b;
      if (sscanf(line, " %*d: %63[0-9A-F]:%x %63[0-9A-F]:%x %*x %lx:%*x %*s %*s %*d %*d %lu", local, &local_port,
                 remote, &remote_port, &sending, &inode) != 6)
        continue;
      read_address(local, local_port, &a);
      read_address(remote, remote_port, &b);
      if (!same(&a, peer) || !same(&b, own_address)) continue;
      fclose(list);
      // If the inode is 0, the connection is not accepted yet.
      if (inode == 0 || sending > 0) return LINUX_ON_THE_WAY;
      return has_socket(inode) ? LINUX_INSIDE : LINUX_OUTSIDE;
    }
    if (list) fclose(list);
  }
  return LINUX_OUTSIDE;
}

int linux_family_surroundings(int descriptor, const struct sockaddr_in6 *own_address, const struct sockaddr_in6 *peer) {
  linux_connection there;
  int result = linux_find_connection(peer, own_address, &there);
  if (result < 0) return listed_surroundings(own_address, peer);
  struct tcp_info here = {0};
  socklen_t size = sizeof here;
  if (result == 0 || getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &here, &size)) return LINUX_OUTSIDE;
  // The connection is not accepted yet, or is being closed.
  if (there.inode == 0) return LINUX_ON_THE_WAY;
  if (here.tcpi_bytes_sent - here.tcpi_bytes_retrans > there.bytes_received ||
      there.bytes_sent > here.tcpi_bytes_received)
    return LINUX_ON_THE_WAY;
  // If the receiver's buffer is full, nothing moves until its process reads, and that process reports its work.
  static unsigned long last;
  if (there.inode != last && !has_socket(there.inode)) return LINUX_OUTSIDE;
  last = there.inode;
  return LINUX_INSIDE;
}
