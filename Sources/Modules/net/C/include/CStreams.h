// CStreams: sockets and names for Swift. A call that fails returns a negative error number.
#pragma once

#include "draft.h"
#include "tls.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/// The address of a socket: IPv4, IPv6 or Unix.
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

/// Parses "127.0.0.1", "::1", "fe80::1%eth0". Returns 0 if the text is not an address.
int net_parse(const char *text, uint16_t port, net_address *out);
/// Makes the address of a path or an abstract name. Returns 0 if the name is too long.
int net_local(const void *name, size_t length, int is_abstract, net_address *out);
/// Turns an IPv4 address into the mapped form that IPv6 sockets use.
void net_map(net_address *address);
void net_set_port(net_address *address, uint16_t port);
int net_port(const net_address *address);
/// Writes "127.0.0.1:80", "[::1]:80", "unix:/path" or "unix:@name", and returns its length. Without `with_port`, writes
/// the address alone.
size_t net_describe(const net_address *address, int with_port, char *out, size_t capacity);
/// The path of a Unix socket's file. Returns its length; 0 without one.
size_t net_path(const net_address *address, char *out, size_t capacity);

/// Blocks. Returns the number of addresses, at most `capacity`; or -1 with an error number: a negative one of
/// getaddrinfo, or one of the system.
int net_resolve(const char *name, int family, net_address *out, int capacity, int *error);
/// The first function returns the code of an error of getaddrinfo, such as "ENOTFOUND"; the second returns its text.
const char *net_resolve_error_name(int error);
const char *net_resolve_error_text(int error);

int net_socket(int family, int type);
int net_pair(int fds[2]);
int net_connect(int fd, const net_address *address);
int net_bind(int fd, const net_address *address);
int net_listen(int fd, int backlog);
int net_accept(int fd, net_address *peer);
/// Returns and clears the socket's error, as after a failed connection; 0 if there is none.
int net_socket_error(int fd);
int net_local_address(int fd, net_address *out);
int net_peer_address(int fd, net_address *out);
/// The kinds of inherited descriptors.
enum net_descriptor { NET_NO_SOCKET, NET_LISTENER, NET_STREAM, NET_DATAGRAM };
/// Returns the kind and sets close-on-exec. Negative: the descriptor does not exist.
int net_inherit(int fd);
/// Returns a non-blocking duplicate.
int net_share(int fd);
int net_shutdown_output(int fd);
/// Whether the descriptor was opened for writing only, as one end of a pipe is.
int net_is_write_only(int fd);

int64_t net_receive(int fd, void *bytes, size_t count);
int64_t net_send(int fd, const struct iovec *pieces, int count);
int64_t net_read(int fd, void *bytes, size_t count);
int64_t net_write(int fd, const void *bytes, size_t count);
/// Reads or writes as much as is possible without waiting, for descriptors that may block.
int64_t net_read_polled(int fd, void *bytes, size_t count);
int64_t net_write_polled(int fd, const void *bytes, size_t count);
int64_t net_receive_from(int fd, void *bytes, size_t count, net_address *from);
/// The size of the next message, as far as the kernel reports it.
int64_t net_next_size(int fd);
int64_t net_send_to(int fd, const void *bytes, size_t count, const net_address *to);

/// Copies in the kernel: from a file's position to a socket or pipe; or between two descriptors, one of which is a
/// pipe.
int64_t net_send_file(int to, int file, size_t count);
int64_t net_splice(int from, int to, size_t count);
/// Whether the descriptor can be read, or written, now.
int net_is_ready(int fd, int for_writing);
int net_pipe(int fds[2]);

int net_set_no_delay(int fd, int on);
/// `idle` and `interval` are seconds; 0 keeps the system's value.
int net_set_keep_alive(int fd, int on, int idle, int interval, int count);
/// Sets the milliseconds for which sent bytes may stay without an acknowledgement.
int net_set_user_timeout(int fd, int milliseconds);
int net_set_reuse_address(int fd);
int net_set_reuse_port(int fd);
int net_set_v6_only(int fd, int on);
int net_set_broadcast(int fd, int on);
/// Whether an IPv6 socket can send to mapped IPv4 addresses: it is dual-stack, and not bound to an IPv6 address.
int net_takes_mapped(int fd);
/// Makes closing send a reset.
int net_set_reset(int fd);
/// The number of bytes, and ends of output, that the peer has not acknowledged; negative if unknown.
int net_unacknowledged(int fd);
int net_join(int fd, const net_address *group, const char *interface, int joins);
int net_credentials(int fd, int32_t *process, uint32_t *user, uint32_t *group);

enum net_kind { NET_NONE, NET_STREAM_SOCKET, NET_DATAGRAM_SOCKET, NET_PIPE, NET_TERMINAL, NET_FILE, NET_DEVICE };
/// Returns the kind of a descriptor, and whether it is non-blocking.
int net_kind_of(int fd, int *is_nonblocking);
void net_make_blocking(int fd);
int net_is_listening(int fd);
int net_duplicate(int fd);
int net_close(int fd);
/// An eventfd: a counter that becomes readable.
int net_event(void);
/// Finds a text in bytes; NULL if it is not there.
const void *net_find(const void *bytes, size_t count, const void *text, size_t length);
/// Listens at a path. Replaces the file of a socket at which no process listens; EADDRINUSE if one does.
int net_listen_at_path(int fd, const net_address *address, uint32_t mode, int backlog);
int net_unlink(const char *path);
long net_descriptor_limit(void);
/// The identity of a socket's file; 0 if there is none at this path.
int net_socket_file(const char *path, uint64_t *device, uint64_t *number);
