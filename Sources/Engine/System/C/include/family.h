// Processes that share a simulated time. One process, the guardian, sets the clock in a page of shared memory. Each
// other process, a member, has a connection to the guardian.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

/// The state of the clock. The clock shows `time`; if `flows_since` is not negative, the time since then by
/// CLOCK_MONOTONIC is added.
typedef struct {
  int64_t time, unseen, flows_since, grain;
  double wall_clock;
} linux_shared_time;

typedef struct linux_family_page linux_family_page;

/// Makes a page, and a descriptor by which other processes find it. NULL and errno on failure.
linux_family_page *linux_make_family(int *descriptor);
/// Maps the page of another process for reading. NULL and errno on failure.
linux_family_page *linux_join_family(int process, int descriptor);
/// Sets the time. Call this only in the process that made the page.
void linux_set_shared_time(linux_family_page *page, const linux_shared_time *time);
/// Reads the time. All fields are of the same moment, even if the other process is changing them.
void linux_get_shared_time(const linux_family_page *page, linux_shared_time *time);
/// Sets the list of processes that share the time, at most 64. Each of these processes can read the list.
void linux_set_family(linux_family_page *page, const int *processes, int count);
/// Returns whether a process shares the time that this process has made or joined.
int linux_is_family(int process);
/// For an internet connection whose other end may be in a process of the family: returns its surroundings, as
/// linux_surroundings does.
int linux_family_surroundings(int descriptor, const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer);
/// Returns whether there is a family.
int linux_has_family(void);

/// The kinds of messages. RESTS: the member rests until a date, or until an event from outside. WORKS: the member
/// works. ASKED: the guardian's question, which the member answers when it rests. GOES: the guardian reports that the
/// member's date has come.
typedef enum { LINUX_RESTS = 1, LINUX_WORKS, LINUX_ASKED, LINUX_GOES } linux_family_kind;
typedef struct {
  linux_family_kind kind;
  int32_t round;  ///< the number of the question and its answer; 0 if not an answer
  int64_t deadline;
  int64_t activity;        ///< how often the process has worked
  int32_t is_outstanding;  ///< whether a real event may still come for the member
  int32_t surroundings;    ///< as linux_surroundings returns
} linux_family_word;

/// Makes a socket to which members connect, with an abstract name. -1 and errno on failure.
int linux_listen_to_family(const char *name);
/// Accepts the next connection, and sets the number of its process. Returns -1 if there is none.
int linux_accept_family(int listener, int *process);
/// Connects to the guardian. -1 and errno on failure.
int linux_connect_family(const char *name);
/// Makes an epoll instance. It is readable when one of its descriptors is readable. -1 and errno on failure.
int linux_new_ears(void);
/// Adds a descriptor to the epoll instance. -1 and errno on failure.
int linux_add_ear(int ears, int descriptor);
int linux_process_number(void);

/// linux_send_family and linux_receive_family never wait. They return 1; 0 if there is no message or no room; -1 if the
/// other process is gone.
int linux_send_family(int descriptor, const linux_family_word *word);
int linux_receive_family(int descriptor, linux_family_word *word);
