// CStreams: sockets and names as Swift can use them. What can fail returns a negative error number.
#pragma once

#include "tls.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/// An address of a socket: of the internet, or of this machine.
typedef struct {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
  } of;
  socklen_t length;
} net_address;

enum net_family { NET_OTHER, NET_V4, NET_V6, NET_LOCAL };

static inline int net_family_of(const net_address *a) {
  switch (a->of.any.sa_family) {
    case AF_INET: return NET_V4;
    case AF_INET6: return NET_V6;
    case AF_UNIX: return NET_LOCAL;
    default: return NET_OTHER;
  }
}

/// "127.0.0.1", "::1", "fe80::1%eth0"; 0 if the text is no such address.
int net_parse(const char *text, uint16_t port, net_address *out);
/// Of a path, or of an abstract name; 0 if it is too long.
int net_local(const void *name, size_t length, int is_abstract, net_address *out);
/// Makes of an address of IPv4 what it is called by sockets of IPv6.
void net_map(net_address *address);
void net_set_port(net_address *address, uint16_t port);
int net_port(const net_address *address);
/// "127.0.0.1:80", "[::1]:80", "unix:/path", "unix:@name"; returns its length. Without the port: a number alone.
size_t net_describe(const net_address *address, int with_port, char *out, size_t capacity);
/// The path of a local address that is a file's; its length, or 0.
size_t net_path(const net_address *address, char *out, size_t capacity);

/// Blocks. Returns how many addresses were found, at most `capacity`, or -1 with an error number: of getaddrinfo's, which are negative, or the
/// system's.
int net_resolve(const char *name, int family, net_address *out, int capacity, int *error);
/// What an error of getaddrinfo's is called, "ENOTFOUND", and in words.
const char *net_resolve_error_name(int error);
const char *net_resolve_error_text(int error);

int net_socket(int family, int type);
int net_pair(int fds[2]);
int net_connect(int fd, const net_address *address);
int net_bind(int fd, const net_address *address);
int net_listen(int fd, int backlog);
int net_accept(int fd, net_address *peer);
/// The error that a socket has kept, as connecting leaves it; 0: none.
int net_socket_error(int fd);
int net_local_address(int fd, net_address *out);
int net_peer_address(int fd, net_address *out);
/// What a descriptor is that somebody has handed down.
enum net_descriptor { NET_NO_SOCKET, NET_LISTENER, NET_STREAM, NET_DATAGRAM };
/// And it closes on exec from now on. Negative: there is none.
int net_inherit(int fd);
/// Another number for it, which reads and writes without waiting.
int net_share(int fd);
int net_shutdown_output(int fd);
/// Whether it was opened for writing only, as a pipe's end is.
int net_is_write_only(int fd);

int64_t net_receive(int fd, void *bytes, size_t count);
int64_t net_send(int fd, const struct iovec *pieces, int count);
int64_t net_read(int fd, void *bytes, size_t count);
int64_t net_write(int fd, const void *bytes, size_t count);
/// What can be read, or written, without waiting: the descriptor itself may make one wait.
int64_t net_read_polled(int fd, void *bytes, size_t count);
int64_t net_write_polled(int fd, const void *bytes, size_t count);
int64_t net_receive_from(int fd, void *bytes, size_t count, net_address *from);
/// How many bytes the next message has, as far as the kernel says.
int64_t net_next_size(int fd);
int64_t net_send_to(int fd, const void *bytes, size_t count, const net_address *to);

/// In the kernel: from a file's position to a socket or a pipe; and from one descriptor to another, of which one is a pipe.
int64_t net_send_file(int to, int file, size_t count);
int64_t net_splice(int from, int to, size_t count);
/// Whether it can be read, or written, at this moment.
int net_is_ready(int fd, int for_writing);
int net_pipe(int fds[2]);

int net_set_no_delay(int fd, int on);
/// Seconds; 0 leaves what the system has.
int net_set_keep_alive(int fd, int on, int idle, int interval, int count);
int net_set_reuse_address(int fd);
int net_set_reuse_port(int fd);
int net_set_v6_only(int fd, int on);
int net_set_broadcast(int fd, int on);
/// Whether a socket of IPv6 can send to addresses of IPv4, once they are mapped: it is for both, and bound to none of IPv6's own.
int net_takes_mapped(int fd);
/// Closing it sends a reset.
int net_set_reset(int fd);
int net_join(int fd, const net_address *group, const char *interface, int joins);
int net_credentials(int fd, int32_t *process, uint32_t *user, uint32_t *group);

enum net_kind { NET_NONE, NET_STREAM_SOCKET, NET_DATAGRAM_SOCKET, NET_PIPE, NET_TERMINAL, NET_FILE, NET_DEVICE };
/// What a descriptor is; whether it is told not to wait.
int net_kind_of(int fd, int *is_nonblocking);
int net_is_listening(int fd);
int net_duplicate(int fd);
int net_close(int fd);
/// A counter that becomes readable: an eventfd.
int net_event(void);
/// Where a text is in another; NULL: nowhere.
const void *net_find(const void *bytes, size_t count, const void *text, size_t length);
/// A listening socket with a file of its own. One that nobody listens at any more is replaced: EADDRINUSE for a live one.
int net_listen_at_path(int fd, const net_address *address, uint32_t mode, int backlog);
int net_unlink(const char *path);
long net_descriptor_limit(void);
/// The identity of a file that is a socket; 0 if there is none of that name.
int net_socket_file(const char *path, uint64_t *device, uint64_t *number);
