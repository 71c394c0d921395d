// Signals that can be read from descriptors.
#pragma once

#include <signal.h>
#include <stdint.h>

/// Makes SIGINT, SIGTERM and SIGHUP, and optionally SIGQUIT, queue in a descriptor instead of ending the process, for a
/// program that only runs its loop. Returns the descriptor; -1 on failure.
int linux_watch_signals(int quits);
/// Returns the number of the next queued signal, or 0.
int linux_take_watched_signal(int fd);

/// Returns a descriptor that becomes readable each time the signal arrives, like an eventfd, while it listens: see
/// linux_hear_signal. While it does not listen, the signal has its previous effect. -1 and errno on failure: EINVAL for
/// a signal that cannot be caught, EMFILE for too many listeners.
int linux_open_signal(int number);
/// Begins or ends listening. While a descriptor listens, the signal has no other effect. The exception is a program
/// that is stuck: a second SIGINT, SIGTERM or SIGQUIT that comes within a second, before the first was taken, also has
/// its previous effect.
void linux_hear_signal(int fd, int hears);
/// Returns how often the signal has come since the last call.
uint64_t linux_take_signal(int fd);
/// Ends listening, and closes the descriptor.
void linux_close_signal(int fd);
