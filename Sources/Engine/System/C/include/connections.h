// Connections of other processes, as the kernel knows them.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

/// One end of a connection. inode 0: nobody has accepted it, or its process has closed it.
typedef struct {
  unsigned long inode;
  uint64_t bytes_sent;  ///< without those that were sent again
  uint64_t bytes_received;
} linux_connection;

/// Finds the end with these addresses, as IPv6 has them, of a TCP connection. Returns 1, 0 if there is none, -1 if the kernel does not say.
int linux_find_connection(const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer, linux_connection *found);
