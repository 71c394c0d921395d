// Sockets between processes. Functions that fail return -1 and set errno.
#pragma once

#include "descriptors.h"

/// Makes a listening socket with a name. The name must be free, or its file must be that of a dead process. Only the
/// same user can connect.
int linux_listen(int directory, const char *name, const char *temporary, linux_file_id *id);
/// Connects to the socket at a name.
int linux_connect(int directory, const char *name);
int linux_accept(int fd);
/// Gets the user and the process at the other end.
int linux_peer(int fd, uint32_t *user, int32_t *process);
/// Sends one message to a Unix socket by its path; "@name" is an abstract name. Returns 0 or -1.
int linux_send_datagram(const char *path, const void *bytes, size_t count);
/// linux_receive and linux_send neither wait nor raise SIGPIPE.
int64_t linux_receive(int fd, void *bytes, size_t count);
int64_t linux_send(int fd, const void *bytes, size_t count);
