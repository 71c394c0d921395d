// Actions of a process before a signal ends it.
#pragma once

#include <signal.h>

#include "ending.h"

/// Sets a function that is called before a signal ends this process. This applies to all signals that are neither
/// ignored nor handled, except SIGKILL. At the signal of a crash, the handler that was set before is called as well.
/// The function is called once, in a signal handler that interrupts arbitrary code; on the main thread the handler has
/// a stack of its own. A child that C code has forked does not call the function. NULL removes it.
void linux_at_death(enum linux_last_act act, void (*function)(void));
/// Handles a signal that by default ends a process, since the kernel ignores signals without handlers in process 1.
void linux_guard_end(int number);
/// Ends the process by the default action of a signal, at once or when the signal's handler has returned. Safe in a
/// signal handler.
void linux_raise_default(int number);
/// Does the actions now. The caller must then end the process. Safe in a signal handler.
void linux_do_last_acts(void);
/// Sets a handler for a signal. Does nothing if the signal is ignored. Does nothing either if the signal already has a
/// handler, unless `is_crash`.
void linux_guard_signal(int number, int is_crash, void (*handler)(int, siginfo_t *, void *));
/// Sets the handler again, if it was set before. Call it after other code has removed the handler.
void linux_guard_signal_again(int number);
