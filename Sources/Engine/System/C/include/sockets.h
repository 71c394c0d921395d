// Sockets between processes. What can fail returns -1 and sets errno.
#pragma once

#include "descriptors.h"

/// A listening socket under a name that is known to be free or left over. Only its owner can connect.
int linux_listen(int directory, const char *name, const char *temporary, linux_file_id *id);
/// A connection to the socket under a name.
int linux_connect(int directory, const char *name);
int linux_accept(int fd);
/// Who is at the other end.
int linux_peer(int fd, uint32_t *user, int32_t *process);
/// Sends one message to a Unix socket, by its path; "@name" is an abstract one. 0, or -1.
int linux_send_datagram(const char *path, const void *bytes, size_t count);
/// Neither waits, and neither raises SIGPIPE.
int64_t linux_receive(int fd, void *bytes, size_t count);
int64_t linux_send(int fd, const void *bytes, size_t count);
