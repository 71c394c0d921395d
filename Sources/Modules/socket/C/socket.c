// The system calls of runloop.socket. None of them waits: sockets do not block, and callers give addresses, not host
// names. Failures are nil, lua-socket's text for them, and the error's number.

#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../encoding/C/codecs.h"

typedef struct address {
  struct sockaddr_storage storage;
  socklen_t length;
} address;

static const char *text_of(int error) {
  switch (error) {
    case EADDRINUSE: return "address already in use";
    case EISCONN: return "already connected";
    case EACCES: return "permission denied";
    case ECONNREFUSED: return "connection refused";
    case ECONNABORTED:
    case EPIPE:
    case ECONNRESET: return "closed";
    case ETIMEDOUT: return "timeout";
    default: return strerror(error);
  }
}

static int fail(lua_State *L, int error) {
  lua_pushnil(L);
  lua_pushstring(L, text_of(error));
  lua_pushinteger(L, error);
  return 3;
}

static int answer(lua_State *L, int result) {
  if (result < 0) return fail(L, errno);
  lua_pushinteger(L, 1);
  return 1;
}

static int check_fd(lua_State *L, int index) { return (int)luaL_checkinteger(L, index); }

// Reads (host, port) or (path) for a family, from the arguments `index` and the next one. Returns 0, or pushes three
// values for Lua.
static int read_address(lua_State *L, int index, int family, address *to) {
  memset(to, 0, sizeof *to);
  size_t length;
  const char *host = luaL_checklstring(L, index, &length);
  if (family == AF_UNIX) {
    struct sockaddr_un *un = (struct sockaddr_un *)&to->storage;
    if (length >= sizeof un->sun_path) {
      lua_pushnil(L);
      lua_pushliteral(L, "path too long");
      lua_pushinteger(L, ENAMETOOLONG);
      return 3;
    }
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, host, length);
    to->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (length && host[0] ? 1 : 0));
    return 0;
  }
  const char *port = luaL_checkstring(L, index + 1);
  struct addrinfo hints = {.ai_family = family, .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list = NULL;
  if (strcmp(host, "*") == 0) {
    host = NULL;
    hints.ai_flags |= AI_PASSIVE;
  }
  int result = getaddrinfo(host, port, &hints, &list);
  if (result || !list) {
    lua_pushnil(L);
    lua_pushstring(L, result == EAI_SERVICE      ? "service not supported for socket type"
                      : result == EAI_ADDRFAMILY ? "address family for hostname not supported"
                      : result == EAI_NONAME     ? "host or service not provided, or not known"
                      : result == EAI_FAMILY     ? "ai_family not supported"
                                                 : gai_strerror(result));
    lua_pushinteger(L, EINVAL);
    return 3;
  }
  memcpy(&to->storage, list->ai_addr, list->ai_addrlen);
  to->length = list->ai_addrlen;
  freeaddrinfo(list);
  return 0;
}

static int family_of(int fd) {
  int family = AF_UNSPEC;
  socklen_t length = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) < 0) return -1;
  return family;
}

// Pushes host, port and family; for Unix sockets the path.
static int push_address(lua_State *L, const address *from) {
  if (from->length <= sizeof(sa_family_t)) {
    lua_pushliteral(L, "");
    return 1;
  }
  if (from->storage.ss_family == AF_UNIX) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)&from->storage;
    size_t most = from->length - offsetof(struct sockaddr_un, sun_path);
    lua_pushlstring(L, un->sun_path, un->sun_path[0] ? strnlen(un->sun_path, most) : most);
    return 1;
  }
  char host[NI_MAXHOST], port[NI_MAXSERV];
  int result = getnameinfo((const struct sockaddr *)&from->storage, from->length, host, sizeof host, port, sizeof port,
                           NI_NUMERICHOST | NI_NUMERICSERV);
  if (result) {
    lua_pushnil(L);
    lua_pushstring(L, gai_strerror(result));
    return 2;
  }
  lua_pushstring(L, host);
  lua_pushstring(L, port);
  lua_pushstring(L, from->storage.ss_family == AF_INET6 ? "inet6" : "inet");
  return 3;
}

// open(family, type) -> descriptor
static int open_socket(lua_State *L) {
  static const char *const families[] = {"inet", "inet6", "unix", NULL}, *const types[] = {"stream", "dgram", NULL};
  static const int numbers[] = {AF_INET, AF_INET6, AF_UNIX};
  int family = numbers[luaL_checkoption(L, 1, NULL, families)];
  int type = luaL_checkoption(L, 2, NULL, types) ? SOCK_DGRAM : SOCK_STREAM;
  int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(L, errno);
  int on = 1;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  lua_pushinteger(L, fd);
  return 1;
}

static int close_socket(lua_State *L) {
  close(check_fd(L, 1));
  return 0;
}

// bind(fd, host, port) or (fd, path)
static int bind_socket(lua_State *L) {
  int fd = check_fd(L, 1), family = family_of(fd);
  if (family < 0) return fail(L, errno);
  address where;
  if (read_address(L, 2, family, &where)) return 3;
  return answer(L, bind(fd, (struct sockaddr *)&where.storage, where.length));
}

// connect(fd, host, port) or (fd, path): 1, or "Operation now in progress" and its number. Without a host: disconnects.
static int connect_socket(lua_State *L) {
  int fd = check_fd(L, 1), family = family_of(fd);
  if (family < 0) return fail(L, errno);
  address where = {.length = sizeof(sa_family_t)};
  where.storage.ss_family = AF_UNSPEC;
  if (!lua_isnoneornil(L, 2) && read_address(L, 2, family, &where)) return 3;
  int result, has_failed = 0;
  // Linux reports ECONNABORTED once if the previous connection of the socket has failed, and does not try to connect.
  do result = connect(fd, (struct sockaddr *)&where.storage, where.length);
  while (result < 0 && (errno == EINTR || (errno == ECONNABORTED && !has_failed++)));
  return answer(L, result);
}

static int listen_socket(lua_State *L) { return answer(L, listen(check_fd(L, 1), (int)luaL_checkinteger(L, 2))); }

static int accept_socket(lua_State *L) {
  int fd;
  do fd = accept4(check_fd(L, 1), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0) return fail(L, errno);
  lua_pushinteger(L, fd);
  return 1;
}

// problem(fd) -> nil, or text and number: the error of a connection that was being made
static int problem(lua_State *L) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(check_fd(L, 1), SOL_SOCKET, SO_ERROR, &error, &length) < 0) error = errno;
  if (!error) return 0;
  lua_pushstring(L, text_of(error));
  lua_pushinteger(L, error);
  return 2;
}

// name(fd, [is_peer]) -> host, port, family
static int name(lua_State *L) {
  address own = {.length = sizeof own.storage};
  int fd = check_fd(L, 1);
  int result = lua_toboolean(L, 2) ? getpeername(fd, (struct sockaddr *)&own.storage, &own.length)
                                   : getsockname(fd, (struct sockaddr *)&own.storage, &own.length);
  return result < 0 ? fail(L, errno) : push_address(L, &own);
}

// send(fd, data, [host, port])
static int send_message(lua_State *L) {
  int fd = check_fd(L, 1);
  size_t length;
  const char *data = luaL_checklstring(L, 2, &length);
  address where = {.length = 0};
  if (!lua_isnoneornil(L, 3) && read_address(L, 3, family_of(fd), &where)) return 3;
  ssize_t sent;
  struct sockaddr *to = where.length ? (struct sockaddr *)&where.storage : NULL;
  do sent = sendto(fd, data, length, MSG_NOSIGNAL, to, where.length);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail(L, errno);
  lua_pushinteger(L, (lua_Integer)sent);
  return 1;
}

// receive(fd, most, [with_sender]) -> data, host, port
static int receive_message(lua_State *L) {
  int fd = check_fd(L, 1), with_sender = lua_toboolean(L, 3);
  size_t most = (size_t)luaL_checkinteger(L, 2);
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, most ? most : 1);
  address from = {.length = sizeof from.storage};
  ssize_t count;
  do count = recvfrom(fd, to, most, 0, (struct sockaddr *)&from.storage, &from.length);
  while (count < 0 && errno == EINTR);
  if (count < 0) return fail(L, errno);
  luaL_pushresultsize(&buffer, (size_t)count);
  if (!with_sender) return 1;
  return 1 + push_address(L, &from);
}

// shutdown(fd, how)
static int shut(lua_State *L) {
  static const char *const names[] = {"receive", "send", "both", NULL};
  return answer(L, shutdown(check_fd(L, 1), luaL_checkoption(L, 2, NULL, names)));
}

// poll({ fd, … }, { "r" | "w" | "rw", … }, results) -> count. Writes for each index which operations are possible: "",
// "r" …
static int poll_now(lua_State *L) {
  for (int index = 1; index <= 3; index++) luaL_checktype(L, index, LUA_TTABLE);
  lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
  struct pollfd *list = lua_newuserdatauv(L, sizeof *list * (size_t)(count ? count : 1), 0);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, 1, i + 1);
    lua_rawgeti(L, 2, i + 1);
    const char *events = luaL_checkstring(L, -1);
    list[i] = (struct pollfd){.fd = (int)luaL_checkinteger(L, -2)};
    list[i].events = (short)((strchr(events, 'r') ? POLLIN | POLLRDHUP : 0) | (strchr(events, 'w') ? POLLOUT : 0));
    lua_pop(L, 2);
  }
  int ready = poll(list, (nfds_t)count, 0);
  for (lua_Integer i = 0; i < count; i++) {
    short found = ready > 0 ? list[i].revents : 0, wanted = list[i].events, broken = found & (POLLERR | POLLHUP);
    int reads = (found & (POLLIN | POLLRDHUP)) || (broken && (wanted & POLLIN));
    int writes = (found & POLLOUT) || (broken && (wanted & POLLOUT));
    lua_pushstring(L, reads ? (writes ? "rw" : "r") : writes ? "w" : "");
    lua_rawseti(L, 3, i + 1);
  }
  lua_pushinteger(L, ready);
  return 1;
}

// Options ------------------------------------------------------------------------------------------------------------
typedef struct option {
  const char *name;
  int level, number;
  enum { FLAG, NUMBER, LINGER, MEMBERSHIP, ADDRESS, TEXT, PROBLEM } kind;
} option;

static const option options[] = {
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE, FLAG},
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR, FLAG},
    {"reuseport", SOL_SOCKET, SO_REUSEPORT, FLAG},
    {"broadcast", SOL_SOCKET, SO_BROADCAST, FLAG},
    {"dontroute", SOL_SOCKET, SO_DONTROUTE, FLAG},
    {"tcp-nodelay", IPPROTO_TCP, TCP_NODELAY, FLAG},
    {"ipv6-v6only", IPPROTO_IPV6, IPV6_V6ONLY, FLAG},
    {"ip-multicast-loop", IPPROTO_IP, IP_MULTICAST_LOOP, FLAG},
    {"ipv6-multicast-loop", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, FLAG},
    {"tcp-keepidle", IPPROTO_TCP, TCP_KEEPIDLE, NUMBER},
    {"tcp-keepcnt", IPPROTO_TCP, TCP_KEEPCNT, NUMBER},
    {"tcp-keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, NUMBER},
    {"tcp-defer-accept", IPPROTO_TCP, TCP_DEFER_ACCEPT, NUMBER},
    {"tcp-fastopen", IPPROTO_TCP, TCP_FASTOPEN, NUMBER},
    {"recv-buffer-size", SOL_SOCKET, SO_RCVBUF, NUMBER},
    {"send-buffer-size", SOL_SOCKET, SO_SNDBUF, NUMBER},
    {"ip-multicast-ttl", IPPROTO_IP, IP_MULTICAST_TTL, NUMBER},
    {"ipv6-multicast-hops", IPPROTO_IPV6, IPV6_MULTICAST_HOPS, NUMBER},
    {"ipv6-unicast-hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS, NUMBER},
    {"linger", SOL_SOCKET, SO_LINGER, LINGER},
    {"ip-add-membership", IPPROTO_IP, IP_ADD_MEMBERSHIP, MEMBERSHIP},
    {"ip-drop-membership", IPPROTO_IP, IP_DROP_MEMBERSHIP, MEMBERSHIP},
    {"ip-multicast-if", IPPROTO_IP, IP_MULTICAST_IF, ADDRESS},
    {"bindtodevice", SOL_SOCKET, SO_BINDTODEVICE, TEXT},
    {"error", SOL_SOCKET, SO_ERROR, PROBLEM},
};

static const option *find_option(lua_State *L, int index) {
  const char *wanted = luaL_checkstring(L, index);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (strcmp(options[i].name, wanted) == 0) return &options[i];
  return NULL;
}

// Refuses an argument: nil, the text of lua-socket's error, and no number.
static int wrong(lua_State *L, const char *text) {
  lua_pushnil(L);
  lua_pushstring(L, text);
  return 2;
}

static struct in_addr address_field(lua_State *L, int index, const char *field) {
  struct in_addr found = {.s_addr = htonl(INADDR_ANY)};
  lua_getfield(L, index, field);
  const char *text = lua_tostring(L, -1);
  struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = AI_NUMERICHOST}, *list = NULL;
  if (text && strcmp(text, "*") != 0 && getaddrinfo(text, NULL, &hints, &list) == 0 && list) {
    found = ((struct sockaddr_in *)(void *)list->ai_addr)->sin_addr;
    freeaddrinfo(list);
  }
  lua_pop(L, 1);
  return found;
}

// set(fd, name, value) -> 1; or nil, text; false: there is no such option
static int set_option(lua_State *L) {
  const option *found = find_option(L, 2);
  int fd = check_fd(L, 1), type = lua_type(L, 3);
  if (!found || found->kind == PROBLEM) return lua_pushboolean(L, 0), 1;
  int number = 0;
  switch (found->kind) {
    case FLAG:
      if (type != LUA_TBOOLEAN) return wrong(L, "boolean expected");
      number = lua_toboolean(L, 3);
      return answer(L, setsockopt(fd, found->level, found->number, &number, sizeof number));
    case NUMBER:
      if (!lua_isnumber(L, 3)) return wrong(L, "number expected");
      number = (int)lua_tonumber(L, 3);
      return answer(L, setsockopt(fd, found->level, found->number, &number, sizeof number));
    case LINGER: {
      if (type != LUA_TTABLE) return wrong(L, "table expected");
      struct linger linger;
      lua_getfield(L, 3, "on");
      lua_getfield(L, 3, "timeout");
      if (!lua_isboolean(L, -2)) return wrong(L, "boolean 'on' field expected");
      if (!lua_isnumber(L, -1)) return wrong(L, "number 'timeout' field expected");
      linger.l_onoff = lua_toboolean(L, -2);
      linger.l_linger = (int)lua_tonumber(L, -1);
      return answer(L, setsockopt(fd, found->level, found->number, &linger, sizeof linger));
    }
    case MEMBERSHIP: {
      if (type != LUA_TTABLE) return wrong(L, "table expected");
      struct ip_mreq group = {address_field(L, 3, "multiaddr"), address_field(L, 3, "interface")};
      return answer(L, setsockopt(fd, found->level, found->number, &group, sizeof group));
    }
    case ADDRESS: {
      lua_settop(L, 3);
      lua_createtable(L, 0, 1);
      lua_pushvalue(L, 3);
      lua_setfield(L, -2, "at");
      struct in_addr at = address_field(L, 4, "at");
      return answer(L, setsockopt(fd, found->level, found->number, &at, sizeof at));
    }
    default: {
      size_t length;
      const char *text = luaL_checklstring(L, 3, &length);
      return answer(L, setsockopt(fd, found->level, found->number, text, (socklen_t)length));
    }
  }
}

// get(fd, name) -> value; or nil, text; nothing: there is no such option
static int get_option(lua_State *L) {
  const option *found = find_option(L, 2);
  int fd = check_fd(L, 1);
  if (!found || found->kind == MEMBERSHIP || found->kind == ADDRESS || found->kind == TEXT) return 0;
  struct linger linger = {0};
  int number = 0, is_linger = found->kind == LINGER;
  void *to = is_linger ? (void *)&linger : &number;
  socklen_t length = is_linger ? sizeof linger : sizeof number;
  if (getsockopt(fd, found->level, found->number, to, &length) < 0) return fail(L, errno);
  if (is_linger) {
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, linger.l_onoff);
    lua_setfield(L, -2, "on");
    lua_pushinteger(L, linger.l_linger);
    lua_setfield(L, -2, "timeout");
  } else if (found->kind == FLAG) {
    lua_pushboolean(L, number);
  } else if (found->kind == PROBLEM) {
    if (number) lua_pushstring(L, text_of(number));
    else lua_pushnil(L);
  } else {
    lua_pushinteger(L, number);
  }
  return 1;
}

static int host_name(lua_State *L) {
  char own[257];
  if (gethostname(own, sizeof own - 1) < 0) return fail(L, errno);
  own[sizeof own - 1] = 0;
  lua_pushstring(L, own);
  return 1;
}

// resolve(host, family) -> { address, … }: blocks, for connections that may not wait
static int resolve(lua_State *L) {
  const char *host = luaL_checkstring(L, 1), *family = luaL_optstring(L, 2, "any");
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  hints.ai_family = strcmp(family, "ipv4") == 0 ? AF_INET : strcmp(family, "ipv6") == 0 ? AF_INET6 : AF_UNSPEC;
  if (getaddrinfo(host, NULL, &hints, &list)) return 0;
  lua_createtable(L, 2, 0);
  lua_Integer count = 0;
  for (struct addrinfo *each = list; each; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST)) continue;
    lua_pushstring(L, text);
    lua_rawseti(L, -2, ++count);
  }
  freeaddrinfo(list);
  return 1;
}

int socket_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"open", open_socket},
                                       {"close", close_socket},
                                       {"bind", bind_socket},
                                       {"connect", connect_socket},
                                       {"listen", listen_socket},
                                       {"accept", accept_socket},
                                       {"problem", problem},
                                       {"name", name},
                                       {"send", send_message},
                                       {"receive", receive_message},
                                       {"shutdown", shut},
                                       {"poll", poll_now},
                                       {"set", set_option},
                                       {"get", get_option},
                                       {"host_name", host_name},
                                       {"resolve", resolve},
                                       {NULL, NULL}};
  lua_createtable(L, 0, 16);
  luaL_setfuncs(L, functions, 0);
  static const struct {
    const char *name;
    lua_Integer number;
  } numbers[] = {{"EAGAIN", EAGAIN}, {"EINPROGRESS", EINPROGRESS}, {"EALREADY", EALREADY}, {"EISCONN", EISCONN}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushinteger(L, numbers[i].number);
    lua_setfield(L, -2, numbers[i].name);
  }
  return 1;
}
