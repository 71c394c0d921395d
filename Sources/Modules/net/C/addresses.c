#define _GNU_SOURCE
#include "CStreams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int net_parse(const char *text, uint16_t port, net_address *out) {
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, text, &out->of.v4.sin_addr) == 1) {
    out->of.v4.sin_family = AF_INET;
    out->length = sizeof out->of.v4;
    net_set_port(out, port);
    return 1;
  }
  if (!strchr(text, ':')) return 0;
  char address[64], *zone;
  if (strlen(text) >= sizeof address) return 0;
  strcpy(address, text);
  if ((zone = strchr(address, '%'))) {
    *zone++ = 0;
    out->of.v6.sin6_scope_id = if_nametoindex(zone);
    if (out->of.v6.sin6_scope_id == 0) return 0;
  }
  if (inet_pton(AF_INET6, address, &out->of.v6.sin6_addr) != 1) return 0;
  out->of.v6.sin6_family = AF_INET6;
  out->length = sizeof out->of.v6;
  net_set_port(out, port);
  return 1;
}

int net_local(const void *name, size_t length, int is_abstract, net_address *out) {
  memset(out, 0, sizeof *out);
  out->of.local.sun_family = AF_UNIX;
  // A path is followed by a zero byte; an abstract name begins with one.
  if (length == 0 || length + 1 > sizeof out->of.local.sun_path) return 0;
  memcpy(out->of.local.sun_path + (is_abstract ? 1 : 0), name, length);
  out->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
  return 1;
}

void net_set_port(net_address *a, uint16_t port) {
  if (a->of.any.sa_family == AF_INET) a->of.v4.sin_port = htons(port);
  if (a->of.any.sa_family == AF_INET6) a->of.v6.sin6_port = htons(port);
}

void net_map(net_address *a) {
  if (a->of.any.sa_family != AF_INET) return;
  const struct sockaddr_in v4 = a->of.v4;
  memset(a, 0, sizeof *a);
  a->of.v6.sin6_family = AF_INET6;
  a->of.v6.sin6_port = v4.sin_port;
  memset(a->of.v6.sin6_addr.s6_addr + 10, 0xff, 2);
  memcpy(a->of.v6.sin6_addr.s6_addr + 12, &v4.sin_addr, 4);
  a->length = sizeof a->of.v6;
}

int net_port(const net_address *a) {
  if (a->of.any.sa_family == AF_INET) return ntohs(a->of.v4.sin_port);
  if (a->of.any.sa_family == AF_INET6) return ntohs(a->of.v6.sin6_port);
  return 0;
}

size_t net_path(const net_address *a, char *out, size_t capacity) {
  if (a->of.any.sa_family != AF_UNIX) return 0;
  size_t length =
      a->length > offsetof(struct sockaddr_un, sun_path) ? a->length - offsetof(struct sockaddr_un, sun_path) : 0;
  if (length == 0 || !a->of.local.sun_path[0]) return 0;
  length = strnlen(a->of.local.sun_path, length);
  if (length >= capacity) return 0;
  memcpy(out, a->of.local.sun_path, length);
  out[length] = 0;
  return length;
}

size_t net_describe(const net_address *a, int with_port, char *out, size_t capacity) {
  char text[INET6_ADDRSTRLEN + 32] = "";
  int written = 0;
  switch (a->of.any.sa_family) {
    case AF_INET:
      inet_ntop(AF_INET, &a->of.v4.sin_addr, text, sizeof text);
      written = with_port ? snprintf(out, capacity, "%s:%d", text, net_port(a)) : snprintf(out, capacity, "%s", text);
      break;
    case AF_INET6: {
      // A dual-stack socket reports IPv4 peers as mapped addresses: describe them as IPv4.
      const uint8_t *bytes = a->of.v6.sin6_addr.s6_addr;
      if (IN6_IS_ADDR_V4MAPPED(&a->of.v6.sin6_addr)) {
        inet_ntop(AF_INET, bytes + 12, text, sizeof text);
        written = with_port ? snprintf(out, capacity, "%s:%d", text, net_port(a)) : snprintf(out, capacity, "%s", text);
        break;
      }
      inet_ntop(AF_INET6, bytes, text, sizeof text);
      char zone[IF_NAMESIZE];
      if (a->of.v6.sin6_scope_id && if_indextoname(a->of.v6.sin6_scope_id, zone)) {
        strcat(text, "%");
        strcat(text, zone);
      }
      written = with_port ? snprintf(out, capacity, "[%s]:%d", text, net_port(a)) : snprintf(out, capacity, "%s", text);
      break;
    }
    case AF_UNIX: {
      size_t length =
          a->length > offsetof(struct sockaddr_un, sun_path) ? a->length - offsetof(struct sockaddr_un, sun_path) : 0;
      const char *path = a->of.local.sun_path;
      if (length == 0) written = snprintf(out, capacity, "unix:");
      else if (path[0]) written = snprintf(out, capacity, "unix:%.*s", (int)strnlen(path, length), path);
      else {
        // An abstract name may contain any bytes.
        written = snprintf(out, capacity, "unix:@");
        const size_t room = capacity - (size_t)written - 1, count = length - 1 < room ? length - 1 : room;
        memcpy(out + written, path + 1, count);
        written += (int)count;
      }
      break;
    }
    default: written = snprintf(out, capacity, "(no address)");
  }
  return written < 0 ? 0 : (size_t)written < capacity ? (size_t)written : capacity - 1;
}

// Opens the two descriptors that a lookup needs at most: a file and a socket. Without free descriptors the C library
// would report that the name does not exist. Returns 0 or an error number.
static int want(void) {
  int fds[2] = {-1, -1}, error = 0;
  for (int i = 0; i < 2 && error == 0; i++) {
    fds[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fds[i] < 0) error = errno;
  }
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0) close(fds[i]);
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ? error : 0;
}

int net_resolve(const char *name, int family, net_address *out, int capacity, int *error) {
  struct addrinfo hints = {.ai_family = family == NET_V4   ? AF_INET
                                        : family == NET_V6 ? AF_INET6
                                                           : AF_UNSPEC,
                           .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  *error = getaddrinfo(name, NULL, &hints, &found);
  if (*error == EAI_SYSTEM) *error = errno;
  if (*error != 0) {
    const int shortage = want();
    if (shortage != 0) *error = shortage;
    return -1;
  }
  int count = 0;
  for (struct addrinfo *a = found; a && count < capacity; a = a->ai_next) {
    if (a->ai_addrlen > sizeof out->of) continue;
    memset(&out[count], 0, sizeof *out);
    memcpy(&out[count].of, a->ai_addr, a->ai_addrlen);
    out[count++].length = a->ai_addrlen;
  }
  freeaddrinfo(found);
  return count;
}

const char *net_resolve_error_name(int error) {
  switch (error) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY: return "ENOTFOUND";
    case EAI_AGAIN: return "EAI_AGAIN";
    case EAI_MEMORY: return "ENOMEM";
    default: return "EAI_FAIL";
  }
}

const char *net_resolve_error_text(int error) {
  switch (error) {
    case EAI_NONAME:
    case EAI_NODATA: return "no such host";
    case EAI_ADDRFAMILY: return "the host has no address of that family";
    case EAI_AGAIN: return "the name servers do not answer";
    case EAI_MEMORY: return "not enough memory";
    default: return gai_strerror(error);
  }
}

int net_join(int fd, const net_address *group, const char *interface, int joins) {
  int result;
  if (group->of.any.sa_family == AF_INET) {
    struct ip_mreqn request = {.imr_multiaddr = group->of.v4.sin_addr,
                               .imr_ifindex = interface ? (int)if_nametoindex(interface) : 0};
    if (interface && !request.imr_ifindex) return -ENODEV;
    result = setsockopt(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request);
  } else {
    struct ipv6_mreq request = {.ipv6mr_multiaddr = group->of.v6.sin6_addr,
                                .ipv6mr_interface = interface ? if_nametoindex(interface) : 0};
    if (interface && !request.ipv6mr_interface) return -ENODEV;
    result = setsockopt(fd, IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request, sizeof request);
  }
  return result < 0 ? -errno : 0;
}
