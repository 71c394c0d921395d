// Shared by the files of the sandbox.
#pragma once

#include "sandbox.h"

#include <sys/socket.h>

typedef struct {
  enum linux_allowance kind;
  char *text;  // the value as given; links of a path are resolved, unless `has_links`
  uint16_t port;
  uint8_t is_host, is_message_port, is_implied, is_file;
  uint8_t has_links;  // a path that may lead through links
} allowance;

struct linux_sandbox {
  allowance *items;
  int count, capacity;
  uint8_t all[LINUX_ALLOWANCES], some[LINUX_ALLOWANCES];
  const char *first;  // the first allowed kind
  int status;         // if not 0, an allowance was refused; `reason` says why
  char reason[512];
  const char *port_directory, *script;
  linux_sandbox *outer;
};

/// Returns the version of Landlock's interface; 0 without Landlock.
int linux_landlock_abi(void);
/// Restricts files, TCP ports and other processes. Returns 0 or an errno.
int linux_restrict(const linux_sandbox *sandbox, int abi);
/// Refuses the system calls that Landlock does not restrict. Returns 0 or an errno.
int linux_install_filter(const linux_sandbox *sandbox, int abi);
/// Starts the doorman: a process outside of the sandbox that connects to named hosts and message ports. Returns 0 or an
/// errno.
int linux_start_doorman(const linux_sandbox *sandbox);
/// Closes the connection to the doorman, if there is one.
void linux_drop_doorman(void);

// The doorman's messages.
enum { MOST_ADDRESSES = 8 };
typedef struct sockaddr_storage linux_address;
typedef struct {
  enum { TO_ADDRESS, TO_MESSAGE_PORT, ADDRESSES } what;
  socklen_t length;
  linux_address to;
  char name[256];
} linux_question;
typedef struct {
  int error, count;
  linux_address found[MOST_ADDRESSES];
} linux_answer;

/// The socket of the process that asks; -1 without a doorman.
extern int linux_doorman;
/// Sends or receives a message, maybe with a descriptor. Returns its length.
ssize_t linux_pass(int fd, void *bytes, size_t size, int *descriptor, int sends);
/// Writes an address without its port; writes nothing for families other than IPv4 and IPv6.
void linux_write_address(const linux_address *it, char text[64]);
