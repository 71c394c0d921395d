// Asks the kernel about a connection by netlink: /proc/net/tcp lists all connections of the machine, and does not show
// which data has arrived.
#define _GNU_SOURCE
#include "connections.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_mapped(const struct in6_addr *address) {
  static const unsigned char prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(address, prefix, sizeof prefix) == 0;
}

static void set_id(struct inet_diag_sockid *id, const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer,
                   int is_short) {
  id->idiag_sport = own->sin6_port;
  id->idiag_dport = peer->sin6_port;
  memcpy(id->idiag_src, (const char *)&own->sin6_addr + (is_short ? 12 : 0), is_short ? 4 : 16);
  memcpy(id->idiag_dst, (const char *)&peer->sin6_addr + (is_short ? 12 : 0), is_short ? 4 : 16);
  id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

// Reads the kernel's answer. Returns 1; 0 if there is no such connection; -1 for any other answer.
static int read_answer(const char *bytes, size_t count, linux_connection *found) {
  const struct nlmsghdr *head = (const void *)bytes;
  if (!NLMSG_OK(head, count)) return -1;
  if (head->nlmsg_type == NLMSG_ERROR) {
    const struct nlmsgerr *error = NLMSG_DATA(head);
    return error->error == -ENOENT ? 0 : -1;
  }
  if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY) return -1;
  const struct inet_diag_msg *message = NLMSG_DATA(head);
  found->inode = message->idiag_inode;
  const char *at = (const char *)(message + 1), *end = bytes + head->nlmsg_len;
  while (at + sizeof(struct nlattr) <= end) {
    struct nlattr attribute;
    memcpy(&attribute, at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || attribute.nla_len > (size_t)(end - at)) break;
    struct tcp_info info = {0};
    size_t size = attribute.nla_len - sizeof attribute;
    if (attribute.nla_type == INET_DIAG_INFO && size >= offsetof(struct tcp_info, tcpi_bytes_retrans) + 8) {
      memcpy(&info, at + sizeof attribute, size < sizeof info ? size : sizeof info);
      found->bytes_sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
      found->bytes_received = info.tcpi_bytes_received;
      return 1;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return -1;
}

static int ask(int fd, int family, const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer,
               linux_connection *found) {
  struct {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
  } request = {
      .head = {.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
      .body = {.sdiag_family = (unsigned char)family,
               .sdiag_protocol = IPPROTO_TCP,
               .idiag_ext = 1 << (INET_DIAG_INFO - 1),
               .idiag_states = 0xffffffff},
  };
  set_id(&request.body.id, own, peer, family == AF_INET);
  char bytes[4096] __attribute__((aligned(8)));
  ssize_t count;
  if (send(fd, &request, sizeof request, 0) < 0) return -1;
  do count = recv(fd, bytes, sizeof bytes, 0);
  while (count < 0 && errno == EINTR);
  return count < 0 ? -1 : read_answer(bytes, (size_t)count, found);
}

int linux_find_connection(const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer, linux_connection *found) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return -1;
  int is_short = is_mapped(&own->sin6_addr) && is_mapped(&peer->sin6_addr);
  int result = ask(fd, is_short ? AF_INET : AF_INET6, own, peer, found);
  // An IPv6 socket may have an IPv4 connection.
  if (result == 0 && is_short) result = ask(fd, AF_INET6, own, peer, found);
  close(fd);
  return result;
}
