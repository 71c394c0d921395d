// Connections out of a sandbox. The doorman, a process outside of the sandbox, makes the connections that Landlock
// refuses to this process. See doorman.c.
#define _GNU_SOURCE
#include "sandbox_private.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

int linux_doorman = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

ssize_t linux_pass(int fd, void *bytes, size_t size, int *descriptor, int sends) {
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec piece = {bytes, size};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  if (!sends || *descriptor >= 0) message.msg_control = control.room, message.msg_controllen = sizeof control.room;
  if (sends && *descriptor >= 0) {
    control.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), descriptor, sizeof(int));
  }
  ssize_t count;
  do count = sends ? sendmsg(fd, &message, MSG_NOSIGNAL) : recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (sends) return count;
  struct cmsghdr *head = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  *descriptor = -1;
  if (head && head->cmsg_type == SCM_RIGHTS) memcpy(descriptor, CMSG_DATA(head), sizeof(int));
  return count;
}

// Returns 0 or an errno.
static int ask(linux_question *it, int *descriptor, linux_answer *reply) {
  pthread_mutex_lock(&lock);
  int is_there = linux_doorman >= 0 && linux_pass(linux_doorman, it, sizeof *it, descriptor, 1) == sizeof *it &&
                 linux_pass(linux_doorman, reply, sizeof *reply, descriptor, 0) == sizeof *reply;
  pthread_mutex_unlock(&lock);
  return is_there ? reply->error : EACCES;
}

// The original functions of the C library. The functions of this file replace them, also for libraries that are opened
// later.

int connect(int fd, const struct sockaddr *to, socklen_t length) {
  static int (*_Atomic real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
  int result = real(fd, to, length), lent = fd;
  int is_refused = result != 0 && (errno == EACCES || errno == EPERM);
  if (!is_refused || linux_doorman < 0 || length > sizeof(linux_address)) return result;
  linux_question it = {.what = TO_ADDRESS, .length = length};
  linux_answer reply;
  memcpy(&it.to, to, length);
  errno = ask(&it, &lent, &reply);
  return errno ? -1 : 0;
}

int linux_connect_by_doorman(const char *name) {
  linux_question it = {.what = TO_MESSAGE_PORT};
  linux_answer reply;
  int found = -1;
  if (linux_doorman < 0 || strlen(name) >= sizeof it.name) return -2;
  strcpy(it.name, name);
  errno = ask(&it, &found, &reply);
  return errno ? -1 : found;
}

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static resolver *real_resolver(void) { return (resolver *)dlsym(RTLD_NEXT, "getaddrinfo"); }

void linux_write_address(const linux_address *it, char text[64]) {
  const void *bytes = it->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)it)->sin_addr
                                               : (const void *)&((const struct sockaddr_in6 *)it)->sin6_addr;
  if (!inet_ntop(it->ss_family, bytes, text, 64)) *text = 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  static resolver *_Atomic real;
  if (!real) real = real_resolver();
  resolver *resolve = real;
  char unused[16];
  int is_number = !node || (hints && hints->ai_flags & AI_NUMERICHOST) || inet_pton(AF_INET, node, unused) == 1 ||
                  inet_pton(AF_INET6, node, unused) == 1;
  linux_question it = {.what = ADDRESSES};
  if (linux_doorman < 0 || is_number || strlen(node) >= sizeof it.name) return resolve(node, service, hints, found);
  linux_answer reply;
  int none = -1;
  strcpy(it.name, node);
  struct addrinfo numeric = hints ? *hints : (struct addrinfo){0}, *first = NULL, **last = &first;
  numeric.ai_flags |= AI_NUMERICHOST;
  int count = ask(&it, &none, &reply) == 0 ? reply.count : 0;
  for (int i = 0; i < count; i++) {
    char text[64];
    linux_write_address(&reply.found[i], text);
    if (resolve(text, service, &numeric, last) != 0) *last = NULL;
    while (*last) last = &(*last)->ai_next;
  }
  if (!first) return resolve(node, service, hints, found);
  *found = first;
  return 0;
}

void linux_drop_doorman(void) {
  if (linux_doorman >= 0) close(linux_doorman);
  linux_doorman = -1;
}
