// Signals as something to read.
#pragma once

#include <signal.h>
#include <stdint.h>

/// Has SIGINT, SIGTERM and SIGHUP, and on request SIGQUIT, wait in a descriptor, which is returned, instead of ending the process: for a program that
/// runs nothing but its loop. -1 on failure.
int linux_watch_signals(int quits);
/// The number of the next signal there, or 0.
int linux_take_watched_signal(int fd);

/// A descriptor that becomes readable, a counter as of eventfd, each time a signal comes while `linux_hear_signal` says so. Signals that
/// come while nobody listens do what they did before. -1 and errno: EINVAL for one that cannot be caught, EMFILE for too many.
int linux_open_signal(int number);
/// Begins or ends listening. While anybody listens to it, a signal does nothing else; but a second SIGINT, SIGTERM or SIGQUIT within a second
/// does what it did before, too, if nobody has read the descriptor since the first: then the program is stuck.
void linux_hear_signal(int fd, int hears);
/// Whether a signal has come since it was last asked, and how often; 0: no.
uint64_t linux_take_signal(int fd);
/// Ends it, and closes the descriptor.
void linux_close_signal(int fd);
