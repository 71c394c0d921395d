// TCP connections of other processes, as the kernel reports them.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

/// An end of a connection, as the kernel lists it. The inode is 0 if no process has accepted the connection yet, or if
/// a process has closed this end.
typedef struct {
  unsigned long inode;
  uint64_t bytes_sent;  ///< without retransmitted bytes
  uint64_t bytes_received;
} linux_connection;

/// Finds the end of a TCP connection that has these addresses, in the form of IPv6. Returns 1 if the connection was
/// found; 0 if it does not exist; -1 if the kernel does not report it.
int linux_find_connection(const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer, linux_connection *found);
