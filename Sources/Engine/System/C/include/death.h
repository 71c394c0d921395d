// What a process does before a signal ends it.
#pragma once

#include <signal.h>

#include "ending.h"

/// Has `function` called before a signal ends this process: any but SIGKILL that is neither ignored nor handled, and those of crashes, which then
/// go on to who handles them. Once, in a signal handler, in the middle of anything, on a stack of its own on the main thread. Children that C
/// code forks do nothing. NULL: nothing any more.
void linux_at_death(enum linux_last_act act, void (*function)(void));
/// Handles a signal that ends other processes by default: the kernel ignores those of process 1 that have no handler.
void linux_guard_end(int number);
/// Ends the process by a signal whose default that is, at once or when its handler has returned. Safe in a signal handler.
void linux_raise_default(int number);
/// Does now what was asked for: whoever calls it ends the process. Safe in a signal handler.
void linux_do_last_acts(void);
/// Has a signal handled, unless it is ignored, or handled already by who sees to something that is no crash.
void linux_guard_signal(int number, int is_crash, void (*handler)(int, siginfo_t *, void *));
/// The same once more, if that was asked for before: another's handler is gone.
void linux_guard_signal_again(int number);
