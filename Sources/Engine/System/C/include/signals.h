// Signals that can be read from descriptors.
#pragma once

#include <signal.h>
#include <stdint.h>

/// Queues SIGINT, SIGTERM and SIGHUP, and optionally SIGQUIT, in a descriptor instead of letting them end the process.
/// For a program that only runs its loop. Returns the descriptor; -1 on failure.
int linux_watch_signals(int quits);
/// Returns the number of the next queued signal, or 0.
int linux_take_watched_signal(int fd);

/// Returns a descriptor, like an eventfd, that becomes readable each time the signal arrives while the descriptor
/// listens; see linux_hear_signal. While no descriptor listens, the signal has its previous effect. -1 and errno on
/// failure: EINVAL for a signal that cannot be caught, EMFILE for too many listeners.
int linux_open_signal(int number);
/// Begins or ends listening. While a descriptor listens, the signal has no other effect. The exception is a program
/// that is stuck: a second SIGINT, SIGTERM or SIGQUIT that comes within a second, before the program has taken the
/// first one, also has its previous effect.
void linux_hear_signal(int fd, int hears);
/// Returns how often the signal has come since the last call.
uint64_t linux_take_signal(int fd);
/// Ends listening, and closes the descriptor.
void linux_close_signal(int fd);
