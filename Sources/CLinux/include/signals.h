// Signals as something to read.
#pragma once

#include <signal.h>

/// Has SIGINT, SIGTERM and SIGHUP, and on request SIGQUIT, wait in a descriptor, which is returned, instead of ending the process: for a program that
/// runs nothing but its loop. -1 on failure.
int linux_watch_signals(int quits);
/// The number of the next signal there, or 0.
int linux_take_watched_signal(int fd);
