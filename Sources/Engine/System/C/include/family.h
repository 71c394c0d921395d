// What processes share that live in one simulated time: a page with the clock, which one of them sets, and a connection of each of the
// others to that one.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

/// What the clock shows: `time`, and since `flows_since` of CLOCK_MONOTONIC, unless negative, what has passed since then.
typedef struct {
  int64_t time, unseen, flows_since, grain;
  double wall_clock;
} linux_shared_time;

typedef struct linux_family_page linux_family_page;

/// A new page, and a descriptor by which other processes find it. NULL and errno: there is none.
linux_family_page *linux_make_family(int *descriptor);
/// The page of another process, of which only it may change anything. NULL and errno.
linux_family_page *linux_join_family(int process, int descriptor);
/// Only in the process that has made it.
void linux_set_shared_time(linux_family_page *page, const linux_shared_time *time);
/// The same moment's, whoever changes it meanwhile.
void linux_get_shared_time(const linux_family_page *page, linux_shared_time *time);
/// Who lives in this time: for the processes to know of each other. At most 64.
void linux_set_family(linux_family_page *page, const int *processes, int count);
/// Whether a process lives in the time that this one has made or joined.
int linux_is_family(int process);
/// Whether a connection's other end, with an internet address, is one of theirs, and all that was sent has arrived: as linux_surroundings
/// has it.
int linux_family_surroundings(int descriptor, const struct sockaddr_in6 *own, const struct sockaddr_in6 *peer);
/// Whether there is any such.
int linux_has_family(void);

/// What they say to each other. Of words from a member: at rest, until a date or until something comes from outside; or that it works.
/// Of words to one: a question, which it answers when it is at rest; or that its date is there.
typedef enum { LINUX_RESTS = 1, LINUX_WORKS, LINUX_ASKED, LINUX_GOES } linux_family_kind;
typedef struct {
  linux_family_kind kind;
  int32_t round;           ///< the question's number, and the answer's; 0: nobody has asked
  int64_t deadline;
  int64_t activity;        ///< how often it has worked
  int32_t is_outstanding;  ///< whether something real may still happen to it
  int32_t surroundings;    ///< as linux_surroundings has it
} linux_family_word;

/// A socket that members connect to, by an abstract name. -1 and errno.
int linux_listen_to_family(const char *name);
/// The next one to connect, and which process that is; -1: none.
int linux_accept_family(int listener, int *process);
/// -1 and errno.
int linux_connect_family(const char *name);
/// A set of descriptors that is readable when one of them is. -1 and errno.
int linux_new_ears(void);
/// -1 and errno.
int linux_add_ear(int ears, int descriptor);
int linux_process_number(void);

/// Never waits. Returns 1, 0 when there is nothing, or no room, -1 when the other one is gone.
int linux_send_family(int descriptor, const linux_family_word *word);
int linux_receive_family(int descriptor, linux_family_word *word);
