// The doorman: a process outside of the sandbox, which connects sockets for a sandboxed process. Landlock can restrict
// TCP ports, but neither hosts nor paths of Unix sockets. So a sandbox that allows HOST:PORT lets its process make
// sockets, but not connect them; the process hands them to the doorman, which checks the address.
#define _GNU_SOURCE
#include "sandbox_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "sockets.h"

static int resolve_all(const char *name, linux_answer *reply) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
  int error = getaddrinfo(name, NULL, &hints, &all);
  if (error) return error == EAI_SYSTEM ? errno : ENOENT;
  for (struct addrinfo *at = all; at && reply->count < MOST_ADDRESSES; at = at->ai_next)
    memcpy(&reply->found[reply->count++], at->ai_addr, at->ai_addrlen);
  freeaddrinfo(all);
  return 0;
}

// Returns the name of an allowed "HOST:PORT", without the brackets of IPv6.
static void host_of(const allowance *item, char host[256]) {
  size_t length = (size_t)(strrchr(item->text, ':') - item->text);
  int has_brackets = length > 2 && item->text[0] == '[' && item->text[length - 1] == ']';
  snprintf(host, 256, "%.*s", (int)length - 2 * has_brackets, item->text + has_brackets);
}

static int is_same(const linux_address *one, const linux_address *other) {
  char texts[2][64];
  const char *shown[2] = {texts[0], texts[1]};
  linux_write_address(one, texts[0]);
  linux_write_address(other, texts[1]);
  for (int i = 0; i < 2; i++)
    if (strncmp(shown[i], "::ffff:", 7) == 0) shown[i] += 7;
  return *shown[0] && strcmp(shown[0], shown[1]) == 0;
}

static int is_allowed(const linux_sandbox *it, const linux_question *asked) {
  uint16_t port = ntohs(((const struct sockaddr_in *)&asked->to)->sin_port);
  if (asked->to.ss_family != AF_INET && asked->to.ss_family != AF_INET6) return 0;
  for (int i = 0; i < it->count; i++) {
    if (!it->items[i].is_host || it->items[i].port != port) continue;
    char host[256];
    linux_answer known = {0};
    host_of(&it->items[i], host);
    resolve_all(host, &known);
    for (int n = 0; n < known.count; n++)
      if (is_same(&known.found[n], &asked->to)) return 1;
  }
  return 0;
}

static int is_named(const linux_sandbox *it, const linux_question *asked) {
  char text[300];
  snprintf(text, sizeof text, "port:%s", asked->name);
  for (int i = 0; i < it->count; i++) {
    char host[256];
    if (it->items[i].kind != LINUX_ALLOW_CONNECT) continue;
    if (asked->what == TO_MESSAGE_PORT && strcmp(it->items[i].text, text) == 0) return 1;
    if (asked->what != ADDRESSES || it->items[i].is_message_port) continue;
    // Without a host, the item allows the port at any host.
    if (!it->items[i].is_host) return 1;
    host_of(&it->items[i], host);
    if (strcasecmp(host, asked->name) == 0) return 1;
  }
  return asked->what == TO_MESSAGE_PORT && it->all[LINUX_ALLOW_CONNECT];
}

static int connect_port(const linux_sandbox *it, const char *name, int *found) {
  uint32_t owner, mode;
  if (!*name || *name == '.' || strchr(name, '/')) return EINVAL;
  int directory = it->port_directory ? linux_open_private_directory(it->port_directory, 0, &owner, &mode) : -1;
  if (directory < 0) return ENOENT;
  *found = linux_connect(directory, name);
  int error = *found < 0 ? errno : 0;
  close(directory);
  return error;
}

static void answer_questions(int fd, const linux_sandbox *it) {
  linux_question asked;
  for (int lent; linux_pass(fd, &asked, sizeof asked, &lent, 0) == sizeof asked;) {
    linux_answer reply = {.error = EACCES};
    int found = -1;
    asked.name[sizeof asked.name - 1] = 0;
    if (asked.what == TO_ADDRESS && lent >= 0 && asked.length <= sizeof asked.to && is_allowed(it, &asked))
      reply.error = connect(lent, (struct sockaddr *)&asked.to, asked.length) ? errno : 0;
    if (asked.what == ADDRESSES && is_named(it, &asked)) reply.error = resolve_all(asked.name, &reply);
    if (asked.what == TO_MESSAGE_PORT && is_named(it, &asked)) reply.error = connect_port(it, asked.name, &found);
    if (lent >= 0) close(lent);
    ssize_t sent = linux_pass(fd, &reply, sizeof reply, &found, 1);
    if (found >= 0) close(found);
    if (sent < 0) return;
  }
}

// Runs the doorman. Leaves only two descriptors open: one to the process that asks, and one to the doorman of the
// enclosing sandbox, if there is one.
static _Noreturn void be_doorman(int fd, const linux_sandbox *it) {
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  int nothing = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; i++) dup2(nothing, i);
  fd = dup3(fd, 3, 0) >= 0 || fd == 3 ? 3 : fd;
  if (linux_doorman >= 0) linux_doorman = dup2(linux_doorman, 4);
  syscall(SYS_close_range, linux_doorman >= 0 ? 5U : 4U, ~0U, 0);
  if (chdir("/") == 0) answer_questions(fd, it);
  _exit(0);
}

int linux_start_doorman(const linux_sandbox *it) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  // Forks twice, so that the doorman is not a child of this process: a script expects only children of its own.
  pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);
    // These descriptor numbers are above those that be_doorman uses.
    int own = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    if (linux_doorman >= 0) linux_doorman = fcntl(linux_doorman, F_DUPFD_CLOEXEC, 10);
    if (own >= 0) be_doorman(own, it);
    _exit(1);
  }
  int error = child < 0 ? errno : 0;
  close(ends[1]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  linux_drop_doorman();
  if (error) close(ends[0]);
  else linux_doorman = linux_lift(ends[0]);
  return error;
}
